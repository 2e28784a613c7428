package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestFind(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(path string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"wd/redrivectl.yaml", "wd/own.yaml", "bare/x", "user/redrivectl/redrivectl.yaml"} {
		write(path)
	}
	for _, tt := range []struct {
		name, explicit, env, user, wd string
		want                          string // empty: none is found
		missing                       bool
	}{
		{name: "explicit wins", explicit: "own.yaml", env: "redrivectl.yaml", user: "user", wd: "wd", want: "wd/own.yaml"},
		{name: "then the environment", env: "own.yaml", user: "user", wd: "wd", want: "wd/own.yaml"},
		{name: "then the working directory", user: "user", wd: "wd", want: "wd/redrivectl.yaml"},
		{name: "then the user's folder", user: "user", wd: "bare", want: "user/redrivectl/redrivectl.yaml"},
		{name: "then nothing", user: "nobody", wd: "bare"},
		{name: "no user's folder", wd: "bare"},
		{name: "explicit and missing", explicit: "gone.yaml", wd: "wd", missing: true},
		{name: "in the environment and missing", env: "gone.yaml", wd: "wd", missing: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			user := func() (string, error) {
				if tt.user == "" {
					return "", errors.New("neither XDG_CONFIG_HOME nor HOME is set")
				}
				return filepath.Join(root, tt.user), nil
			}
			got, found, err := Find(tt.explicit, env("REDRIVECTL_CONFIG", tt.env), user, filepath.Join(root, tt.wd))
			if errors.Is(err, fs.ErrNotExist) != tt.missing || (err != nil) != tt.missing {
				t.Fatalf("error %v; want a missing file: %v", err, tt.missing)
			}
			want := ""
			if tt.want != "" {
				want = filepath.Join(root, tt.want)
			}
			if got != want || found != (want != "") {
				t.Errorf("got %s, %v; want %s", got, found, want)
			}
		})
	}
}
