package mirror

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/loop"
)

// gate holds back requests of one kind until the service wants them again.
type gate struct {
	most  time.Duration // longest wait; 0: unlimited
	aside time.Duration // a longer wait is a laterError; 0: never
	note  func(until time.Time, why string)

	mu    sync.Mutex // guards what follows
	until time.Time
	why   string
}

// shut closes the gate until a time. It fails if the time is further away than most.
func (g *gate) shut(until time.Time, why string) error {
	if g.most > 0 && time.Until(until) > g.most {
		return &refusedError{fmt.Sprintf("%s (not waiting for longer than %v)", why, g.most)}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		if until.Sub(g.until) > time.Second {
			g.note(until, why)
		}
		g.until, g.why = until, why
	}
	return nil
}

// wait waits until the gate is open. If that takes longer than aside, and aside is not 0, it
// returns a laterError at once.
func (g *gate) wait(ctx context.Context) error {
	for {
		g.mu.Lock()
		until, why := g.until, g.why
		g.mu.Unlock()
		left := time.Until(until)
		if left <= 0 {
			return ctx.Err()
		}
		if g.aside > 0 && left > g.aside {
			return &laterError{until, why}
		}
		if err := loop.Sleep(ctx, left); err != nil {
			return err
		}
	}
}

// touch records that the service has sent something.
func (m *mirror) touch() { m.progress.Store(time.Now().UnixNano()) }

// maxBackoff is the longest pause between two attempts.
const maxBackoff = 30 * time.Second

// insist repeats do until it succeeds, or fails with an error for which a repetition is useless.
// With Once, it gives up if the service sends nothing for the time Patience. It sends no requests
// while the service wants none.
func (m *mirror) insist(ctx context.Context, g *gate, do func() error) error {
	for pause := m.Backoff; ; {
		if err := g.wait(ctx); err != nil {
			return err
		}
		begun := time.Now()
		err := do()
		var later *laterError
		switch {
		case err == nil:
			m.touch()
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &later):
			if err := m.shut(g, later); err != nil {
				return err
			}
			m.touch()
			continue
		case forGood(err):
			return err
		}
		last := time.Unix(0, m.progress.Load())
		if silent := time.Since(last); m.Once && silent > m.Patience {
			return fmt.Errorf("the service gave nothing for %v: %w", silent.Round(time.Second), err)
		}
		if last.After(begun) {
			pause = m.Backoff
		}
		m.Reporter.Note(Note{Event: "again", Why: err.Error()})
		if err := loop.Sleep(ctx, pause/2+rand.N(pause)); err != nil {
			return err
		}
		pause = min(2*pause, maxBackoff)
	}
}

// shut shuts a gate until the time that the service names, and at least for Backoff.
func (m *mirror) shut(g *gate, later *laterError) error {
	soonest := time.Now().Add(m.Backoff)
	if later.until.After(soonest) {
		soonest = later.until
	}
	return g.shut(soonest, later.why)
}

// forGood reports whether a repetition is useless after an error.
func forGood(err error) bool {
	var refused *refusedError
	var local *fs.PathError
	var untrusted *tls.CertificateVerificationError
	return errors.As(err, &refused) || errors.As(err, &local) || errors.As(err, &untrusted) || files.IsFull(err) ||
		isOther(err) || errors.Is(err, errCorrupt) || errors.Is(err, errExpired)
}
