package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/term"
)

// app is one invocation of the program: its surroundings, the global flags, and
// what was opened on the way. Costly parts are opened when they are first
// needed, so that --help reads nothing.
type app struct {
	args   []string // as typed
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string
	now    func() time.Time
	bound  func(limit int64)

	configPath string
	storePath  string
	output     outputForm
	noColor    bool
	yes        bool

	cfg     *config.Config
	objects objectStore
	live    *term.Progress // what is being told on standard error; nil: nothing
	screen  *listener      // takes what is told in place of standard error; nil: none
	closers []func() error
}

func newApp(env Env) *app {
	return &app{args: env.Args, stdin: env.Stdin, stdout: env.Stdout, stderr: env.Stderr, getenv: env.Getenv, now: env.Now, bound: env.Bound, output: outputTable}
}

// apart is another invocation in the same surroundings, with the same config. What
// it opens is its own to close, and l hears what it tells.
func (a *app) apart(l *listener) *app {
	return &app{
		args: a.args, stdin: a.stdin, stdout: a.stdout, stderr: a.stderr, getenv: a.getenv, now: a.now,
		configPath: a.configPath, storePath: a.storePath, output: a.output, noColor: a.noColor, yes: a.yes,
		cfg: a.cfg, screen: l,
	}
}

// onClose registers what is to be closed when the command has ended, in reverse
// order of opening.
func (a *app) onClose(f func() error) { a.closers = append(a.closers, f) }

func (a *app) close() error {
	a.live.Finish()
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	return errors.Join(errs...)
}

// helpOut is where help goes. Whoever writes it drops the error of a write, which is
// therefore told when the command has ended.
func (a *app) helpOut() io.Writer {
	w := &keptError{to: a.stdout}
	a.onClose(func() error { return w.err })
	return w
}

// keptError is a writer that keeps its last error.
type keptError struct {
	to  io.Writer
	err error
}

func (w *keptError) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	if err != nil {
		w.err = fmt.Errorf("write output: %w", err)
	}
	return n, err
}

func (a *app) lookupEnv(name string) (string, bool) {
	v := a.getenv(name)
	return v, v != ""
}

func (a *app) terminal() term.Terminal {
	return term.Detect(a.stdout, a.lookupEnv, a.noColor)
}

// progress tells how far some work has come, on standard error, until results
// are printed.
func (a *app) progress() *term.Progress {
	a.live.Finish()
	if a.screen != nil {
		return term.TellProgress(a.screen.step)
	}
	a.live = term.NewProgress(a.stderr, term.Detect(a.stderr, a.lookupEnv, a.noColor), a.output == outputJSON, a.now)
	return a.live
}

// note writes a line for people to standard error.
func (a *app) note(format string, args ...any) {
	a.live.Finish()
	if a.screen != nil {
		a.screen.note(fmt.Sprintf(format, args...))
		return
	}
	_, _ = fmt.Fprintln(a.stderr, term.Text(fmt.Sprintf(format, args...))) // nowhere is left to tell of a failure
}

// configFile is the config that is in force; empty: there is none.
func (a *app) configFile() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	path, _, err := config.Find(a.configPath, a.getenv, os.UserConfigDir, wd)
	return path, err
}

// config loads the configuration once.
func (a *app) config() (*config.Config, error) {
	if a.cfg != nil {
		return a.cfg, nil
	}
	path, err := a.configFile()
	if err != nil {
		return nil, err
	}
	if path != "" {
		a.cfg, err = config.Load(path, a.getenv)
		err = withHint(err, "redrivectl init --print, which shows every key")
	} else {
		a.cfg, err = config.Default(a.getenv)
	}
	return a.cfg, err
}

// actor is who acts: the operating system's account, or, where the config says
// that persons are declared, whoever REDRIVECTL_ACTOR names.
func (a *app) actor() (audit.Person, error) {
	cfg, err := a.config()
	if err != nil {
		return audit.Person{}, err
	}
	if name := a.getenv("REDRIVECTL_ACTOR"); name != "" {
		if cfg.Approval.Identity != config.Declared {
			return audit.Person{}, fail(exitRefused, "unset REDRIVECTL_ACTOR, or set approval.identity: declared",
				"REDRIVECTL_ACTOR names a person, but the config takes persons from the account")
		}
		return audit.Person{Name: name, Known: string(config.Declared)}, nil
	}
	u, err := user.Current()
	if err != nil {
		return audit.Person{}, fmt.Errorf("find out whose account this is: %w", err)
	}
	return audit.Person{Name: accountName(u.Uid), Known: string(config.Account)}, nil
}

// accountName is the name that the system has for a user ID, or the ID itself:
// where the system has none, user.Current takes it from USER, which is for
// anyone to set.
func accountName(uid string) string {
	u, err := user.LookupId(uid)
	if err != nil {
		return "uid " + uid
	}
	return u.Username
}

// host is this machine's name, for records.
func (a *app) host() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find out the host's name: %w", err)
	}
	return name, nil
}

// confirm asks before something changes. Off a terminal, and where a program
// reads the output, nobody can answer: --yes must have been given.
func (a *app) confirm(question string) error {
	if a.screen != nil {
		return a.screen.confirm(question)
	}
	if a.yes {
		return nil
	}
	in, ok := a.stdin.(*os.File)
	asks := ok && term.Detect(in, a.lookupEnv, true).IsTTY && term.Detect(a.stderr, a.lookupEnv, true).IsTTY
	if !asks || a.output.isJSON() {
		return fail(exitRefused, "add --yes", "this asks for confirmation, and nobody can answer here: %s", question)
	}
	yes, err := term.Confirm(a.stdin, a.stderr, question)
	if err != nil {
		return err
	}
	if !yes {
		return fail(exitRefused, "", "not confirmed; nothing was changed")
	}
	return nil
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
