package redrive

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
)

// presence knows which of the copies to import are in the queue. A copy is there
// under its own identity, or as one with the same message ID and content that no
// other of the copies to import has claimed. So of two equal copies in a file
// one is imported when the queue holds the other, and none when it holds both.
// It takes about a hundred bytes for each copy of the file and of the queue.
type presence struct {
	entity string
	what   func(broker.Message) string
	own    map[string]bool // copies of this queue that are there under their own identity
	spare  map[string]int  // what else is there, by content
}

// look finds out what is in the queue. A queue that cannot be seen whole is no
// ground to put anything into it.
func (im *Importer) look(ctx context.Context, copies Copies) (*presence, int, error) {
	p := &presence{entity: im.Entity, what: im.content(), own: map[string]bool{}, spare: map[string]int{}}
	wanted, n := map[string]string{}, 0
	err := copies(ctx, func(m broker.Message) error {
		n++
		if m.Copy.Entity == im.Entity {
			wanted[m.Copy.ID] = p.what(m)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	c, err := im.Broker.Browse(ctx, 0, func(m broker.Message) error {
		if is := p.what(m); wanted[m.Copy.ID] == is {
			p.own[m.Copy.ID] = true
		} else {
			p.spare[is]++
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("look at %s: %w", im.Queue, err)
	}
	if !c.Complete {
		return nil, 0, fmt.Errorf("%w: which copies are in %s already cannot be told: %s", ErrRefused, im.Queue, c.Why)
	}
	return p, n, nil
}

// content is what makes two copies the same but for their identity. Where the
// broker keeps no message ID, that is none of it.
func (im *Importer) content() func(broker.Message) string {
	if _, keeps := im.Broker.(broker.Restorer); !keeps {
		return job.MessageHash
	}
	return func(m broker.Message) string { return audit.Hash([]byte(m.MessageID + "\x00" + job.MessageHash(m))) }
}

// take reports whether the copy is there. A copy that is not is held for there
// from now on, since whoever asks puts it there.
func (p *presence) take(m broker.Message) bool {
	is := p.what(m)
	switch {
	case m.Copy.Entity == p.entity && p.own[m.Copy.ID]:
		return true
	case p.spare[is] > 0:
		p.spare[is]--
		return true
	}
	if m.Copy.Entity == p.entity {
		p.own[m.Copy.ID] = true
	}
	return false
}
