// Package quorum provides mutual exclusion among processes without a separate server: each process
// is one of the servers. It is protocol QC of paper 002 (quorum consensus with the majority
// coterie). For each name a server has one token, which it lends to one client at a time. A client
// that has the tokens of a majority of the servers holds the name. If a client with a higher
// priority asks, the server recalls its token from the client that has it. That client returns the
// token unless it holds the name.
//
// It differs from the paper in four ways:
//
//   - A request's priority is its logical time (Lamport 1978), not how often its client has held
//     the name, since lease.Locker promises that waiters take turns in the order in which they
//     asked.
//   - A token is lent for a time. So a client that has died, or is cut off, loses it. A server that
//     has been started anew lends nothing for that time.
//   - Before a client holds the name, it writes a fencing token, higher than any that they know, to
//     the servers that have lent it their tokens. The servers keep it on disk. So a later holder
//     always has a higher fencing token, whatever clocks and messages do: a majority that accepts a
//     fencing token has accepted no higher one, and has lent its tokens to nobody else since.
//   - Servers join and leave in two phases (the paper's L and L̄), whose order follows Raft's joint
//     consensus (Ongaro and Ousterhout 2014, section 6): see Locker.Change.
//
// Types server and attempt have no clock, files or connections of their own. So a test can play ten
// thousand schedules of delays, losses, copies, restarts and changes.
package quorum

import (
	"maps"
	"slices"
	"time"
)

// Config names the servers.
type Config struct {
	Epoch   int64    `json:"epoch"` // higher for each later configuration
	Members []string `json:"members"`
	Next    []string `json:"next,omitempty"` // during a change: a majority of these is needed, too
}

// includes reports whether a server is in the configuration.
func (c Config) includes(server string) bool {
	return slices.Contains(c.Members, server) || slices.Contains(c.Next, server)
}

// all returns the servers, sorted.
func (c Config) all() []string {
	all := slices.Concat(c.Members, c.Next)
	slices.Sort(all)
	return slices.Compact(all)
}

// quorum reports whether the servers that has selects are enough: a majority of Members and, during
// a change, also a majority of Next.
func (c Config) quorum(has func(server string) bool) bool {
	for _, set := range [][]string{c.Members, c.Next} {
		n := 0
		for _, server := range set {
			if has(server) {
				n++
			}
		}
		if len(set) > 0 && n <= len(set)/2 {
			return false
		}
	}
	return true
}

// Kinds of requests. The paper calls get GET, and return RET.
const (
	kindTime   = "time"   // what is the logical time, and what fencing tokens are known?
	kindGet    = "get"    // lend me the token, or go on lending it
	kindReturn = "return" // here is the token; I still wait
	kindLeave  = "leave"  // here is the token; I wait no more
	kindEnter  = "enter"  // I have a majority and shall hold the name with this fencing token
	kindRaise  = "raise"  // remember at least these fencing tokens
)

// request is a client's request to a server.
type request struct {
	Kind   string           `json:"kind"`
	Config Config           `json:"config"`           // as the client knows it
	Name   string           `json:"name,omitempty"`   // name of the lease
	Client string           `json:"client,omitempty"` // one attempt of one process to hold a name
	Stamp  int64            `json:"stamp,omitempty"`  // priority of the attempt: lower stamps, then lower clients, go first
	Seq    int64            `json:"seq,omitempty"`    // number of the client's request
	TTL    time.Duration    `json:"ttl,omitempty"`    // time for which a token is lent
	Fence  int64            `json:"fence,omitempty"`  // kindEnter
	Fences map[string]int64 `json:"fences,omitempty"` // kindRaise
}

// answer is a server's answer. If Config, Differs or Removed is set, it has nothing else.
type answer struct {
	Config  *Config          `json:"config,omitempty"`  // a later configuration, because of which nothing was done
	Removed bool             `json:"removed,omitempty"` // nothing was done, since the process is no longer a server
	Differs bool             `json:"differs,omitempty"` // nothing was done, since the server's settings name other servers
	Stamp   int64            `json:"stamp,omitempty"`   // logical time of the name
	Lent    bool             `json:"lent,omitempty"`    // the client has the token
	Recall  bool             `json:"recall,omitempty"`  // the client should return the token, unless it holds the name
	Fence   int64            `json:"fence,omitempty"`   // highest fencing token of the name
	Entered bool             `json:"entered,omitempty"` // kindEnter: the fencing token is kept
	Fences  map[string]int64 `json:"fences,omitempty"`  // kindTime without a name: fencing tokens of all names
}

// Kept is a server's durable state. It is stored before the server answers.
type Kept struct {
	Config Config           `json:"config"`
	Fences map[string]int64 `json:"fences"` // highest fencing token, by name
	TTL    time.Duration    `json:"ttl"`    // longest time for which a token was lent
}

// server is the state of one server. Its methods must not be called concurrently.
type server struct {
	name  string
	kept  Kept
	keep  func(Kept) error // makes kept durable
	since time.Time        // no token is lent before, since tokens from before the start may be out
	names map[string]*token
}

// token is a server's token of one name.
type token struct {
	stamp   int64   // logical time
	lent    *place  // nil: the server has it
	entered bool    // the client has written its fencing token
	fencer  string  // client that wrote the highest fencing token since the start
	waiting []place // by priority
}

// place is a client that has the token or waits for it.
type place struct {
	client string
	stamp  int64
	until  time.Time // end of the place, unless the client asks again
	seq    int64     // number of the client's last kindGet or kindEnter request
}

func (p place) before(o place) bool {
	return p.stamp < o.stamp || p.stamp == o.stamp && p.client < o.client
}

// newServer starts a server with its durable state. Tokens from before the start may be out for
// ttl, or for kept.TTL if that is longer. A server that has not joined yet has lent no tokens.
func newServer(name string, kept Kept, ttl time.Duration, now time.Time, keep func(Kept) error) *server {
	if kept.Fences == nil {
		kept.Fences = make(map[string]int64)
	}
	since := now
	if kept.Config.includes(name) || kept.TTL > 0 {
		since = now.Add(max(kept.TTL, ttl))
	}
	return &server{name: name, kept: kept, keep: keep, since: since, names: make(map[string]*token)}
}

// handle answers a request. After an error the state is uncertain, and the client gets no answer.
func (s *server) handle(now time.Time, q request) (a answer, err error) {
	switch {
	case q.Config.Epoch < s.kept.Config.Epoch:
		later := s.kept.Config // a copy, since the answer is read while other requests are handled
		return answer{Config: &later}, nil
	case q.Config.Epoch > s.kept.Config.Epoch:
		if err := s.change(func(k *Kept) { k.Config = q.Config }); err != nil {
			return a, err
		}
	}
	switch {
	case !slices.Equal(q.Config.Members, s.kept.Config.Members) || !slices.Equal(q.Config.Next, s.kept.Config.Next):
		return answer{Differs: true}, nil
	case !s.kept.Config.includes(s.name):
		return answer{Removed: true}, nil
	}
	if q.Kind == kindRaise {
		return a, s.raise(q.Fences)
	}
	if q.Kind == kindTime && q.Name == "" {
		return answer{Fences: s.kept.Fences}, nil
	}
	t := s.names[q.Name]
	if t == nil {
		t = new(token)
		s.names[q.Name] = t
	}
	t.expire(now)
	switch q.Kind {
	case kindGet:
		if q.TTL > s.kept.TTL {
			if err := s.change(func(k *Kept) { k.TTL = q.TTL }); err != nil {
				return a, err
			}
		}
		t.get(place{q.Client, q.Stamp, now.Add(q.TTL), q.Seq})
	case kindReturn:
		if t.has(q.Client) && q.Seq > t.lent.seq { // otherwise the request comes late, or twice
			t.insert(*t.lent)
			t.lent = nil
		}
	case kindLeave:
		t.drop(q.Client)
	case kindEnter:
		if a.Entered, err = s.enter(t, q); err != nil {
			return a, err
		}
	}
	if t.lent == nil && len(t.waiting) > 0 && !now.Before(s.since) {
		first := t.waiting[0]
		t.lent, t.entered, t.waiting = &first, false, t.waiting[1:]
	}
	a.Stamp, a.Fence, a.Lent = t.stamp, s.kept.Fences[q.Name], t.has(q.Client)
	a.Recall = a.Lent && len(t.waiting) > 0 && t.waiting[0].before(*t.lent)
	if t.lent == nil && len(t.waiting) == 0 && t.stamp == 0 {
		delete(s.names, q.Name)
	}
	return a, nil
}

// change stores the durable state as f changes it. After an error s.kept is the old state.
func (s *server) change(f func(*Kept)) error {
	next := s.kept
	next.Fences = make(map[string]int64, len(s.kept.Fences)+1)
	maps.Copy(next.Fences, s.kept.Fences)
	f(&next)
	if err := s.keep(next); err != nil {
		return err
	}
	s.kept = next
	return nil
}

// enter stores a client's fencing token, if the client has the server's token and no known fencing
// token is as high. It reports whether the token is stored.
func (s *server) enter(t *token, q request) (bool, error) {
	known := s.kept.Fences[q.Name]
	if !t.has(q.Client) {
		return false, nil
	}
	t.lent.seq = max(t.lent.seq, q.Seq)
	switch {
	case q.Fence == known && t.entered && t.fencer == q.Client:
		return true, nil // a copy of the request
	case q.Fence <= known:
		return false, nil
	}
	if err := s.change(func(k *Kept) { k.Fences[q.Name] = q.Fence }); err != nil {
		return false, err
	}
	t.entered, t.fencer = true, q.Client
	return true, nil
}

func (s *server) raise(fences map[string]int64) error {
	higher := false
	for name, fence := range fences {
		higher = higher || fence > s.kept.Fences[name]
	}
	if !higher {
		return nil
	}
	return s.change(func(k *Kept) {
		for name, fence := range fences {
			k.Fences[name] = max(k.Fences[name], fence)
		}
	})
}

func (t *token) has(client string) bool { return t.lent != nil && t.lent.client == client }

// expire forgets clients whose time has passed without another request.
func (t *token) expire(now time.Time) {
	if t.lent != nil && now.After(t.lent.until) {
		t.lent = nil
	}
	t.waiting = slices.DeleteFunc(t.waiting, func(p place) bool { return now.After(p.until) })
}

// get prolongs a client's place, or gives it one.
func (t *token) get(p place) {
	t.stamp = max(t.stamp, p.stamp)
	if t.has(p.client) {
		t.lent.until, t.lent.seq = p.until, max(p.seq, t.lent.seq)
		return
	}
	if at := slices.IndexFunc(t.waiting, func(o place) bool { return o.client == p.client }); at >= 0 {
		t.waiting[at].until, t.waiting[at].seq = p.until, max(p.seq, t.waiting[at].seq)
		return
	}
	t.insert(p)
}

func (t *token) insert(p place) {
	at, _ := slices.BinarySearchFunc(t.waiting, p, func(a, b place) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	t.waiting = slices.Insert(t.waiting, at, p)
}

func (t *token) drop(client string) {
	if t.has(client) {
		t.lent = nil
	}
	t.waiting = slices.DeleteFunc(t.waiting, func(p place) bool { return p.client == client })
}
