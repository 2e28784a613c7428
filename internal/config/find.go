package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// FileName is the name of a configuration file that is found by itself.
const FileName = "redrivectl.yaml"

// Find says which file to load: explicit (--config), $REDRIVECTL_CONFIG,
// redrivectl.yaml in wd, then redrivectl/redrivectl.yaml in the user's
// configuration folder. A file that was named and does not exist is an error;
// when none was named and none exists, found is false and Default applies.
// userConfigDir is os.UserConfigDir; its error means that there is no such
// folder.
func Find(explicit string, getenv func(string) string, userConfigDir func() (string, error), wd string) (path string, found bool, err error) {
	if explicit != "" {
		return named(explicit, "--config", wd)
	}
	if p := getenv("REDRIVECTL_CONFIG"); p != "" {
		return named(p, "$REDRIVECTL_CONFIG", wd)
	}
	candidates := []string{filepath.Join(wd, FileName)}
	if dir, err := userConfigDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "redrivectl", FileName))
	}
	for _, p := range candidates {
		_, err := os.Stat(p)
		if err == nil {
			return p, true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", false, fmt.Errorf("look for a configuration: %w", err)
		}
	}
	return "", false, nil
}

func named(path, by, wd string) (string, bool, error) {
	abs := absolute(wd, path)
	if _, err := os.Stat(abs); err != nil {
		return "", false, fmt.Errorf("find the configuration that %s names: %w", by, err)
	}
	return abs, true, nil
}

// nameStore gives a configuration that names no store the one in the user's
// state folder.
func (c *Config) nameStore(getenv func(string) string) error {
	if c.Store.Path != "" {
		c.Store.Named = true
		return nil
	}
	dir, err := StateDir(getenv)
	if err != nil {
		return err
	}
	c.Store.Path = filepath.Join(dir, "redrivectl", "store.db")
	return nil
}

// StateDir is the user's state folder by the XDG base directory specification,
// which has a relative $XDG_STATE_HOME ignored.
func StateDir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state"), nil
	}
	if dir := getenv("LOCALAPPDATA"); filepath.IsAbs(dir) {
		return dir, nil
	}
	return "", errors.New("find the user's state folder: neither XDG_STATE_HOME nor HOME is set; name the store with store.path")
}
