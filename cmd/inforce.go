package cmd

import (
	"context"
	"crypto/sha256"
	"os"
	"sync"

	"github.com/redrivectl/redrivectl/redrive"
)

// settingsInForce tells which policy and settings stand on disk now. They are
// decoded anew only when the bytes of a file have changed, so that a run can ask
// before each batch.
type settingsInForce struct {
	app   *app
	queue string

	mu    sync.Mutex
	files [2]string // the config and the policy; empty: the one that ships
	sum   [sha256.Size]byte
	found *redrive.Digests // of files with that sum; nil: none was read yet
}

// now reads them. Its error means that nobody can say what is in force.
func (f *settingsInForce) now(context.Context) (redrive.Digests, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path, err := f.app.configFile()
	if err != nil {
		return redrive.Digests{}, err
	}
	if f.found != nil && path == f.files[0] {
		if sum, err := sumOf(f.files); err == nil && sum == f.sum {
			return *f.found, nil
		}
	}
	return f.read()
}

func (f *settingsInForce) read() (redrive.Digests, error) {
	fresh := newApp(Env{Args: f.app.args, Getenv: f.app.getenv, Now: f.app.now})
	fresh.configPath = f.app.configPath
	cfg, err := fresh.config()
	if err != nil {
		return redrive.Digests{}, err
	}
	if _, _, err := fresh.queueConfig(f.queue); err != nil { // one that was typed is in no file
		return redrive.Digests{}, err
	}
	files := [2]string{cfg.File, cfg.PolicyFile(f.queue)}
	sum, err := sumOf(files) // before they are decoded: what changes meanwhile is read the next time
	if err != nil {
		return redrive.Digests{}, err
	}
	policy, err := fresh.policyFor(f.queue)
	if err != nil {
		return redrive.Digests{}, err
	}
	d, err := fresh.digests(&queue{name: f.queue, policy: policy})
	if err == nil {
		f.files, f.sum, f.found = files, sum, &d
	}
	return d, err
}

// sumOf is one hash over the content of the files, each by its own.
func sumOf(files [2]string) ([sha256.Size]byte, error) {
	var all []byte
	for _, name := range files {
		if name == "" {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return [sha256.Size]byte{}, err // it names the file
		}
		one := sha256.Sum256(b)
		all = append(all, one[:]...)
	}
	return sha256.Sum256(all), nil
}
