package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// demoPatience is how long the demo waits where nothing moves.
const (
	demoPatience = time.Minute
	demoPoll     = 20 * time.Millisecond
	demoGrace    = 15 * time.Second // for a process that was asked to end
)

// demoProcess is a provider or a worker. It ends when its standard input does,
// so it cannot outlive the demo, whatever ends that.
type demoProcess struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   string        // the file of the standard errors of all processes
	said  int64         // its length before this process
	lines chan string   // its standard output; lines that nobody waits for may be dropped
	done  chan struct{} // closed when it has ended; err is valid then
	err   error
}

// start runs one of the demo's own subcommands in the background.
func (w *demoWorld) start(args ...string) (*demoProcess, error) {
	name := strings.Join(args[:2], " ")
	log, err := os.OpenFile(w.path(demoProcessLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close() //nolint:errcheck // The child has its own; nothing was written here.
	said, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &exec.Cmd{Path: w.exe, Args: append([]string{"redrivectl"}, args...), Dir: w.dir, Env: w.environment(""), Stderr: log}
	stdin, err := c.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &demoProcess{name: name, cmd: c, stdin: stdin, log: log.Name(), said: said, lines: make(chan string, 256), done: make(chan struct{})}
	go p.follow(stdout)
	w.app.onClose(p.kill)
	return p, nil
}

func (p *demoProcess) follow(stdout io.Reader) {
	s := bufio.NewScanner(stdout)
	for s.Scan() {
		select {
		case p.lines <- s.Text():
		default:
		}
	}
	if err := errors.Join(s.Err(), p.cmd.Wait()); err != nil {
		p.err = fmt.Errorf("%s: %w%s", p.name, err, p.complaints())
	}
	close(p.done)
}

// complaints are the errors by which processes have ended since this one began.
func (p *demoProcess) complaints() string {
	const own = "redrivectl: "
	log, err := os.ReadFile(p.log)
	if err != nil || int64(len(log)) < p.said {
		return ""
	}
	var all strings.Builder
	for line := range strings.Lines(string(log[p.said:])) {
		if text, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), own); ok {
			all.WriteString("; " + text)
		}
	}
	return all.String()
}

// stop asks the process to end, waits for it, and says how it ended.
func (p *demoProcess) stop() error {
	_ = p.stdin.Close() // closed already if the process has ended
	t := time.NewTimer(demoGrace)
	defer t.Stop()
	select {
	case <-p.done:
		return p.err
	case <-t.C:
		return errors.Join(fmt.Errorf("%s did not end when asked to", p.name), p.kill())
	}
}

// kill ends the process at once, as a crash would, and waits until it is gone.
func (p *demoProcess) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// ended is the error of a process that should still be running.
func (p *demoProcess) ended() error {
	select {
	case <-p.done:
		if p.err != nil {
			return p.err
		}
		return fmt.Errorf("%s ended by itself", p.name)
	default:
		return nil
	}
}

// await waits for n lines of standard output that begin with prefix.
func (p *demoProcess) await(ctx context.Context, n int, prefix string) error {
	t := time.NewTimer(demoPatience)
	defer t.Stop()
	for n > 0 {
		select {
		case line := <-p.lines:
			if strings.HasPrefix(line, prefix) {
				n--
			}
		case <-p.done:
			return errors.Join(interrupted(ctx), p.ended())
		case <-t.C:
			return fmt.Errorf("wait for %s to say %q: nothing for %s", p.name, prefix, demoPatience)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// environment is this process's own, without what would send a command to
// another config or store, and with the person who is to act.
func (w *demoWorld) environment(actor string) []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "REDRIVECTL_") })
	if actor != "" {
		env = append(env, "REDRIVECTL_ACTOR="+actor)
	}
	if w.app.noColor {
		env = append(env, "NO_COLOR=1")
	}
	return env
}

// untilEOF runs do until in ends, which is its regular end; anything else that
// ends the context is an interruption.
func untilEOF(ctx context.Context, in io.Reader, do func(context.Context) error) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // an error is an end as well
		cancel()
	}()
	err := do(inner)
	if ctx.Err() == nil && inner.Err() != nil && onlyCanceled(err) {
		return nil // what was cut short by the end of in
	}
	return errors.Join(err, ctx.Err())
}

// onlyCanceled reports that nothing but the end of a context is in the error.
func onlyCanceled(err error) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok { // of a join each part is looked at
		return !slices.ContainsFunc(all.Unwrap(), func(e error) bool { return !onlyCanceled(e) })
	}
	return errors.Is(err, context.Canceled)
}

// awaitStill polls until look is done. It gives up when mark, which look
// returns, has not changed for a while, or when a process has ended.
func awaitStill(ctx context.Context, what string, ps []*demoProcess, look func() (done bool, mark string, err error)) error {
	last, since := "", time.Now()
	for {
		done, mark, err := look()
		if err != nil || done {
			return err
		}
		if mark != last {
			last, since = mark, time.Now()
		}
		if time.Since(since) > demoPatience {
			return fmt.Errorf("wait for %s: nothing moved for %s at %s", what, demoPatience, mark)
		}
		for _, p := range ps {
			if err := p.ended(); err != nil {
				return errors.Join(interrupted(ctx), fmt.Errorf("wait for %s: %w", what, err))
			}
		}
		if err := sleep(ctx, demoPoll); err != nil {
			return err
		}
	}
}

// interrupted waits a moment for an interrupt that a terminal has sent to all
// processes alike, and that another one was quicker to act on.
func interrupted(ctx context.Context) error { return sleep(ctx, demoPatience/200) }
