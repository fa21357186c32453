package quorum

import (
	"slices"
	"time"
)

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
