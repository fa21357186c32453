package quorum

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/lease"
	"sheaf/internal/loop"
)

// Options are the settings of a Locker.
type Options struct {
	lease.Options
	Members []string // host:port of the servers, until a change names others; the same at all processes
	Secret  []byte   // shared by the servers and their clients

	// Listener, Address and File are for a process that is a server itself.
	Listener net.Listener // nil: the process is not a server
	Address  string       // the server's name: host:port where the others reach it, as in Members
	File     string       // file for the server's durable state
}

// Locker grants leases by a majority of servers, of which this process may be one. Clients and
// servers share a secret that signs each message. The messages are not encrypted, since nothing in
// them is secret.
type Locker struct {
	opt    Options
	caller *caller

	mu     sync.Mutex // guards what follows
	server *server    // nil: this process is not a server
	served int64      // requests that the server has answered
	config Config     // the latest known configuration

	leaving sync.WaitGroup
	http    *http.Server
	serving sync.WaitGroup
}

// ErrNoQuorum says that too few servers answer. No lease is granted or renewed.
var ErrNoQuorum = errors.New("no majority of the servers of the leases answers")

const releasing = 5 * time.Second

// Open starts a Locker, and its server if it has one. The caller must close it.
func Open(opt Options) (*Locker, error) {
	opt.Fill()
	opt.Holder += " " + rand.Text()
	members := slices.Clone(opt.Members)
	slices.Sort(members)
	l := &Locker{opt: opt, config: Config{Members: slices.Compact(members)}, caller: &caller{secret: opt.Secret, client: &http.Client{}, told: make(map[string]told)}}
	l.caller.client.Transport = &http.Transport{MaxIdleConnsPerHost: 16}
	if opt.Listener == nil {
		return l, nil
	}
	kept := Kept{Config: l.config}
	switch text, err := os.ReadFile(opt.File); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("lease: %w", err)
	default:
		kept = Kept{}
		if err := json.Unmarshal(text, &kept); err != nil {
			return nil, fmt.Errorf("lease: %s: %w", opt.File, err)
		}
		l.config = kept.Config
	}
	l.server = newServer(opt.Address, kept, opt.TTL, time.Now(), func(k Kept) error {
		text, err := json.Marshal(k)
		if err != nil {
			return err
		}
		return files.WriteFile(opt.File, text)
	})
	mux := http.NewServeMux()
	mux.Handle("POST "+path, newDoor(opt.Address, opt.Secret, l.serve, func(reason string, r *http.Request) {
		opt.Log.WarnContext(r.Context(), "lease: a message was refused", "remote", r.RemoteAddr, "reason", reason)
	}))
	l.http = &http.Server{Handler: mux, ReadHeaderTimeout: releasing, ReadTimeout: releasing, ErrorLog: slog.NewLogLogger(opt.Log.Handler(), slog.LevelWarn)}
	l.serving.Go(func() { _ = l.http.Serve(opt.Listener) }) // until Close
	return l, nil
}

// serve handles a request as the server, and takes over a later configuration.
func (l *Locker) serve(q request) (answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served++
	r, err := l.server.handle(time.Now(), q)
	l.learn(l.server.kept.Config)
	return r, err
}

// learn takes over a later configuration. l.mu must be locked.
func (l *Locker) learn(c Config) {
	if c.Epoch > l.config.Epoch {
		l.config = c
	}
}

func (l *Locker) known() Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.config
}

// ask sends a request to a server, which may be this process.
func (l *Locker) ask(ctx context.Context, server string, q request) (answer, error) {
	if l.server != nil && server == l.opt.Address {
		return l.serve(q)
	}
	ctx, cancel := context.WithTimeout(ctx, min(l.opt.TTL/2, 3*time.Second))
	defer cancel()
	r, err := l.caller.call(ctx, server, q)
	if err == nil && r.Config != nil {
		l.mu.Lock()
		l.learn(*r.Config)
		l.mu.Unlock()
	}
	return r, err
}

// Close ends the server and the connections. Leases that clients hold end by themselves.
func (l *Locker) Close() error {
	var err error
	if l.http != nil {
		err = l.http.Close()
		l.serving.Wait()
	}
	l.leaving.Wait()
	l.caller.client.CloseIdleConnections()
	return err
}

// Do implements lease.Locker.
func (l *Locker) Do(ctx context.Context, name string, f func(context.Context, int64) error) error {
	for {
		s := newSession(l, newAttempt(name, l.opt.Holder+" "+rand.Text(), l.known(), l.opt.TTL))
		err := s.run(ctx, func(time.Time) bool { return s.a.stage >= holding })
		switch {
		case err != nil:
			s.leave(ctx)
			return fmt.Errorf("lease %s: %w", name, err)
		case s.a.stage == lapsed:
			s.leave(ctx)
			continue
		}
		defer s.leave(ctx)
		return lease.Under(ctx, s.a.fence, s.keep, f)
	}
}

// Raise implements lease.Locker.
func (l *Locker) Raise(ctx context.Context, name string, least int64) error {
	if err := l.all(ctx, request{Kind: kindRaise, Fences: map[string]int64{name: least}}); err != nil {
		return fmt.Errorf("lease %s: raise: %w", name, err)
	}
	return nil
}

// Check returns nil if enough servers answer, and ErrNoQuorum if too few answer before ctx ends.
func (l *Locker) Check(ctx context.Context) error {
	return l.all(ctx, request{Kind: kindTime})
}

// all sends a request to all servers, again and again until a quorum has answered. If ctx ends
// before, it returns ErrNoQuorum.
func (l *Locker) all(ctx context.Context, q request) error {
	heard := make(map[string]bool)
	for {
		q.Config = l.known()
		var mu sync.Mutex // guards heard and failed
		var failed error
		var asking sync.WaitGroup
		for _, server := range q.Config.all() {
			asking.Go(func() {
				r, err := l.ask(ctx, server, q)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					failed = errors.Join(failed, err)
				case r.Differs:
					failed = errors.Join(failed, errDiffers(server))
				case r.Config == nil && !r.Removed:
					heard[server] = true
				}
			})
		}
		asking.Wait()
		if l.known().Epoch != q.Config.Epoch {
			clear(heard)
			continue
		}
		if q.Config.quorum(func(server string) bool { return heard[server] }) {
			return nil
		}
		if !loop.Pause(ctx, 100*time.Millisecond) {
			return errors.Join(ErrNoQuorum, failed, context.Cause(ctx))
		}
	}
}

func errDiffers(server string) error {
	return fmt.Errorf("server %s knows other servers than this process; lease.quorum.members must be the same at all", server)
}

// Member is a server, its part in a change, and whether it answers.
type Member struct {
	Address string `json:"address"`
	Joining bool   `json:"joining,omitempty"` // the server joins by a change that has not ended
	Leaving bool   `json:"leaving,omitempty"`
	Problem string `json:"problem,omitempty"` // why the server does not answer
}

// Members returns the servers, in the order of their addresses, with the problem of each that does
// not answer within some seconds. If no majority answers, it returns the servers that this process
// knows, and ErrNoQuorum.
func (l *Locker) Members(ctx context.Context) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, releasing)
	defer cancel()
	asking, stop := context.WithTimeout(ctx, releasing/2)
	defer stop()
	err := l.Check(asking)
	c := l.known()
	all := []Member{}
	for _, server := range c.all() {
		m := Member{Address: server}
		if c.Next != nil {
			m.Joining, m.Leaving = !slices.Contains(c.Members, server), !slices.Contains(c.Next, server)
		}
		if _, err := l.ask(ctx, server, request{Kind: kindTime, Config: c}); err != nil {
			m.Problem = err.Error()
		}
		all = append(all, m)
	}
	return all, err
}

// changeTime limits a change of the servers, as a multiple of the TTL. A change waits for tokens
// that other clients hold, and then for the old tokens to end.
const changeTime = 6

// Change changes the servers, in two phases, while leases are held and granted. It takes a little
// longer than the TTL. members gets the present servers and returns the new ones. Only one change
// runs at a time. If an earlier change was broken off, Change completes it first. It returns
// ErrNoQuorum if a majority of the present servers, or of the new ones, does not answer for some
// seconds.
func (l *Locker) Change(ctx context.Context, members func(now []string) ([]string, error)) error {
	asking, stop := context.WithTimeout(ctx, l.opt.TTL+releasing)
	err := l.Check(asking)
	stop()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, changeTime*l.opt.TTL+releasing, ErrNoQuorum)
	defer cancel()
	for more := true; more; {
		err := l.Do(ctx, serversName, func(ctx context.Context, fence int64) error {
			now := l.known()
			more = now.Next != nil
			next, err := members(slices.Clone(now.Members))
			if err != nil && !more {
				return err
			}
			return l.change(ctx, newChange(now, next, fence, l.opt.TTL))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Locker) change(ctx context.Context, c *change) error {
	for {
		var mu sync.Mutex // guards c
		var asking sync.WaitGroup
		now, ask := time.Now(), make(map[string]request)
		for _, server := range c.joint.all() {
			if q, ok := c.next(now, server); ok {
				ask[server] = q
			}
		}
		for server, q := range ask {
			asking.Go(func() {
				if r, err := l.ask(ctx, server, q); err == nil {
					mu.Lock()
					defer mu.Unlock()
					c.heard(time.Now(), server, q, r)
				}
			})
		}
		asking.Wait()
		switch c.step {
		case overtaken:
			return errors.New("the servers of the leases were changed by somebody else meanwhile")
		case changed:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.learn(c.final)
			return nil
		}
		l.mu.Lock()
		if c.step > installJoint {
			l.learn(c.joint)
		}
		l.mu.Unlock()
		if !loop.Pause(ctx, 100*time.Millisecond) {
			return errors.Join(ErrNoQuorum, context.Cause(ctx))
		}
	}
}

// Address returns the name of this process's server, as in Options.
func (l *Locker) Address() string { return l.opt.Address }

// Served returns how many requests this process's server has answered.
func (l *Locker) Served() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.served
}

// Asked returns how many clients have this server's token of a name, or wait for it.
func (l *Locker) Asked(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.server.names[name]
	switch {
	case t == nil:
		return 0
	case t.lent == nil:
		return len(t.waiting)
	}
	return len(t.waiting) + 1
}
