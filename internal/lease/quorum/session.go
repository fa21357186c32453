package quorum

import (
	"context"
	"slices"
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

// stage is the progress of an attempt.
type stage int

const (
	timing   stage = iota // asks for the logical time
	getting               // collects tokens
	entering              // writes its fencing token
	holding
	lapsed // its tokens may have been lent to others meanwhile, so getting them again does not help
)

// attempt is one attempt of a client to hold a name. Its methods must not be called concurrently.
type attempt struct {
	name, client string
	config       Config
	ttl          time.Duration

	stage   stage
	stamp   int64
	seq     int64 // number of the last request
	fence   int64
	servers map[string]*seen
	grace   time.Time // while holding: until when the tokens of an earlier configuration last
}

// seen is an attempt's knowledge of one server.
type seen struct {
	timed   bool
	stamp   int64
	fence   int64
	until   time.Time // end of the time in which its token is ours; zero: the token is not ours
	recall  bool
	entered bool
	since   int64 // number of the request by which its token was returned
}

func newAttempt(name, client string, config Config, ttl time.Duration) *attempt {
	return &attempt{name: name, client: client, config: config, ttl: ttl, servers: make(map[string]*seen)}
}

func (a *attempt) of(server string) *seen {
	if a.servers[server] == nil {
		a.servers[server] = new(seen)
	}
	return a.servers[server]
}

// next returns the request to send to a server at this stage.
func (a *attempt) next(now time.Time, server string) request {
	a.seq++
	q := request{Kind: kindGet, Config: a.config, Name: a.name, Client: a.client, Stamp: a.stamp, Seq: a.seq, TTL: a.ttl}
	s := a.of(server)
	switch {
	case a.stage == timing:
		q.Kind = kindTime
	case a.stage == getting && s.recall:
		q.Kind = kindReturn
		s.until, s.recall, s.since = time.Time{}, false, a.seq // the token no longer counts as ours
	case a.stage == entering && !s.entered && now.Before(s.until):
		q.Kind, q.Fence = kindEnter, a.fence
	}
	return q
}

// heard handles a server's answer r to request q, which was sent at the time asked. It reports
// whether further requests should be sent at once.
func (a *attempt) heard(now time.Time, server string, asked time.Time, q request, r answer) (hurry bool) {
	if a.stage == holding && !now.Before(a.certain(now)) {
		a.stage = lapsed
	}
	before, s := a.stage, a.of(server)
	switch {
	case r.Config != nil:
		return a.adopt(now, *r.Config)
	case r.Removed || r.Differs || q.Config.Epoch != a.config.Epoch || q.Seq < s.since:
		return false
	}
	s.stamp, s.fence = max(s.stamp, r.Stamp), max(s.fence, r.Fence)
	switch q.Kind {
	case kindTime:
		s.timed = true
	case kindGet:
		s.recall = r.Recall && a.stage == getting
		if until := asked.Add(a.ttl); !r.Lent {
			s.until, s.entered = time.Time{}, false
		} else if until.After(s.until) {
			s.until = until
		}
	case kindEnter:
		if s.entered = r.Entered && q.Fence == a.fence; !r.Lent {
			s.until = time.Time{}
		}
	}
	a.advance(now)
	return a.stage != before || s.recall
}

// adopt takes over c if c is a later configuration, and reports whether it is. A held name stays
// held as long as it was certain by the earlier configuration; before that time ends, the attempt
// must get the tokens that the later configuration needs. A change waits for that time before its
// second step.
func (a *attempt) adopt(now time.Time, c Config) bool {
	if c.Epoch <= a.config.Epoch {
		return false
	}
	if a.stage == holding {
		a.grace = a.certain(now)
	} else {
		a.stage = min(a.stage, getting)
		for _, s := range a.servers {
			s.entered, s.until = false, time.Time{}
		}
	}
	a.config = c
	return true
}

// advance goes to the next stage if enough servers have answered for it. If the attempt cannot
// enter, advance goes back to getting.
func (a *attempt) advance(now time.Time) {
	ours := func(server string) bool { return now.Before(a.of(server).until) }
	switch a.stage {
	case timing:
		if a.config.quorum(func(server string) bool { return a.of(server).timed }) {
			for _, s := range a.servers {
				a.stamp = max(a.stamp, s.stamp)
			}
			a.stamp++
			a.stage = getting
		}
	case getting:
		if a.config.quorum(ours) {
			for _, server := range a.config.all() {
				a.fence = max(a.fence, a.of(server).fence)
			}
			a.fence++
			a.stage = entering
			for _, s := range a.servers {
				s.entered = false
			}
		}
	case entering:
		switch {
		case a.config.quorum(func(server string) bool { return ours(server) && a.of(server).entered }):
			a.stage = holding
		case !a.config.quorum(ours):
			a.stage = getting
		case slices.ContainsFunc(a.config.all(), func(server string) bool {
			return ours(server) && a.of(server).fence >= a.fence && !a.of(server).entered
		}):
			a.stage = getting // another client has raised the fencing tokens
		}
	}
}

// certain returns the time until which the name is certainly held, because the tokens of a quorum
// are ours. If the name is not held, it returns the zero time.
func (a *attempt) certain(now time.Time) time.Time {
	if a.stage != holding {
		return time.Time{}
	}
	if now.Before(a.grace) {
		return a.grace
	}
	var ends []time.Time
	for _, server := range a.config.all() {
		if until := a.of(server).until; now.Before(until) {
			ends = append(ends, until)
		}
	}
	slices.SortFunc(ends, func(x, y time.Time) int { return y.Compare(x) })
	for _, end := range ends { // find the latest time at which enough tokens are ours
		if a.config.quorum(func(server string) bool { return !a.of(server).until.Before(end) }) {
			return end
		}
	}
	return time.Time{}
}
