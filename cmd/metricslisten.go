package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/internal/metrics"
)

const (
	// scrapePatience bounds what one client may keep the server waiting.
	scrapePatience = 10 * time.Second
	// stopPatience is how long a stop waits for scrapes under way.
	stopPatience = 5 * time.Second
)

// scrapes serves one collection to everybody who asks within the floor interval,
// so that scraping more often does not ask the sources more often.
type scrapes struct {
	ctx     context.Context //nolint:containedctx // The server's: a collection serves others than who asked for it.
	now     func() time.Time
	floor   time.Duration
	collect func(context.Context) (*metrics.Set, error)
	fault   func(error)

	mu   sync.Mutex
	at   time.Time // of the last collection that succeeded; zero: none
	body []byte
}

// serve serves the figures until ctx ends, which is no failure.
func (o *metricsOptions) serve(ctx context.Context, c *collector) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	h := &scrapes{ctx: ctx, now: o.app.now, floor: o.floor, collect: c.collect, fault: func(err error) {
		o.app.note("collect figures: %v", err)
	}}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: scrapePatience, ReadTimeout: scrapePatience, IdleTimeout: 2 * time.Minute}
	o.app.note("serving http://%s/metrics", l.Addr())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err = <-ended:
		return fmt.Errorf("serve figures: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	if err := s.Shutdown(stop); err != nil {
		return errors.Join(fmt.Errorf("stop serving figures: %w", err), s.Close())
	}
	return nil
}

// ServeHTTP answers with figures no older than the floor interval.
func (h *scrapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := h.figures()
	if err != nil {
		http.Error(w, "the figures could not be collected", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", metrics.ContentType())
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // whoever has gone away is not waiting
}

func (h *scrapes) figures() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.now(); !h.at.IsZero() && now.Sub(h.at) >= 0 && now.Sub(h.at) < h.floor {
		return h.body, nil
	}
	set, err := h.collect(h.ctx)
	var b bytes.Buffer
	if err == nil {
		err = set.Write(&b)
	}
	if err != nil {
		if h.ctx.Err() == nil {
			h.fault(err)
		}
		return nil, err
	}
	h.at, h.body = h.now(), b.Bytes()
	return h.body, nil
}
