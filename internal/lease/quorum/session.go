package quorum

import (
	"context"
	"sync"
	"time"

	"sheaf/internal/lease"
)

// session carries out an attempt with the servers. Its methods must not be called concurrently.
type session struct {
	l       *Locker
	a       *attempt
	heard   chan heard
	due     map[string]time.Time
	busy    map[string]chan struct{} // of servers that are being asked; closed at the answer
	quiet   time.Time                // when enough servers last answered
	answers map[string]time.Time
	warned  bool
}

// heard is an answer to a request, or an error instead.
type heard struct {
	server string
	asked  time.Time
	q      request
	r      answer
	err    error
}

func newSession(l *Locker, a *attempt) *session {
	return &session{
		l: l, a: a, heard: make(chan heard, 64), due: make(map[string]time.Time), busy: make(map[string]chan struct{}),
		answers: make(map[string]time.Time), quiet: time.Now(),
	}
}

// every is the time between two requests to a server.
func (s *session) every() time.Duration {
	if s.a.stage == holding && !time.Now().Before(s.a.grace) { // otherwise tokens of further servers are needed soon
		return s.l.opt.TTL / 4
	}
	return min(max(s.l.opt.TTL/100, 10*time.Millisecond), 250*time.Millisecond)
}

// run asks the servers until enough returns true or ctx ends.
func (s *session) run(ctx context.Context, enough func(now time.Time) bool) error {
	for {
		now := time.Now()
		if enough(now) {
			return nil
		}
		wake := now.Add(s.every())
		if certain := s.a.certain(now); certain.After(now) && certain.Before(wake) {
			wake = certain
		}
		for _, server := range s.a.config.all() {
			if s.busy[server] == nil && !now.Before(s.due[server]) {
				s.due[server] = now.Add(s.every())
				s.ask(ctx, now, server)
			}
			if due := s.due[server]; s.busy[server] == nil && due.Before(wake) {
				wake = due
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case h := <-s.heard:
			s.take(ctx, h)
		case <-time.After(time.Until(wake)):
		}
	}
}

func (s *session) ask(ctx context.Context, now time.Time, server string) {
	q, answered := s.a.next(now, server), make(chan struct{})
	s.busy[server] = answered
	go func() {
		r, err := s.l.ask(ctx, server, q)
		close(answered)
		s.heard <- heard{server, now, q, r, err} // does not block: there is room for one of each server
	}()
}

// take passes an answer to the attempt. It logs if too few servers answer for some seconds.
func (s *session) take(ctx context.Context, h heard) {
	now := time.Now()
	delete(s.busy, h.server)
	switch {
	case h.err == nil && !h.r.Differs:
		s.answers[h.server] = now
		if s.a.heard(now, h.server, h.asked, h.q, h.r) {
			clear(s.due)
		}
	case h.r.Differs:
		h.err = errDiffers(h.server)
	}
	const patience = 3 * time.Second
	if s.a.config.quorum(func(server string) bool { return now.Sub(s.answers[server]) < patience }) {
		s.quiet, s.warned = now, false
	} else if h.err != nil && !s.warned && now.Sub(s.quiet) > patience {
		s.warned = true
		s.l.opt.Log.ErrorContext(ctx, "lease: no majority of the servers of the leases answers; nothing is published or planned until one does", "lease", s.a.name, "err", h.err)
	}
}

// keep prolongs the hold on the name until ctx ends or the hold is lost.
func (s *session) keep(ctx context.Context) error {
	err := s.run(ctx, func(now time.Time) bool { return s.a.stage == lapsed || !now.Before(s.a.certain(now)) })
	if err != nil {
		return nil // ctx has ended
	}
	s.a.stage = lapsed
	return lease.ErrLost
}

// leave gives all tokens back. It waits until enough servers have them, and tells the other servers
// in the background.
func (s *session) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasing)
	servers := s.a.config.all()
	done := make(chan string, len(servers))
	var telling sync.WaitGroup
	for _, server := range servers {
		q, busy := s.a.next(time.Now(), server), s.busy[server]
		q.Kind = kindLeave
		telling.Go(func() {
			if busy != nil {
				<-busy // otherwise that request would take the token again
			}
			_, _ = s.l.ask(ctx, server, q) // if this fails, the token's time ends by itself
			done <- server
		})
	}
	s.l.leaving.Go(func() { telling.Wait(); cancel() })
	told := make(map[string]bool)
	for range servers {
		told[<-done] = true
		if s.a.config.quorum(func(server string) bool { return told[server] }) {
			return
		}
	}
}
