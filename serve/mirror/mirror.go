// Package mirror keeps a copy of a service's archives in a directory and follows
// the change feed with it, over HTTP or FTP.
//
// The directory is laid out as the service's tree: hosts by their reversed names,
// editions' files, and in each host's directory a MANIFEST of what is in hand and
// its SHA256SUMS. A file has its name only once it is whole and verified; what is
// under way, and the place in the feed, lie in .sheaf-mirror. The place moves on
// when all before it is in hand and on disk, and doing a thing again is harmless, so
// a mirror that was killed at any moment goes on where it was.
//
// What an event told and could not be had (it is something else by now, or arrives
// damaged again and again) does not hold up the rest: the host is looked at again, by
// its MANIFEST, each time the end of the feed is reached.
package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"sheaf/serve/client"
	"sheaf/serve/feed"
)

// Options of a mirror. URL and Dir are needed.
type Options struct {
	URL       string // http, https, ftp or ftpes (FTP with AUTH TLS); a name and password in it are the account's
	Dir       string
	User      string // where the URL has none
	Password  string
	CAFile    string // PEM: the authorities that the service's certificate may be of; default the system's
	Selection client.Selection
	Forms     []string // what to keep: of editions by suffix, current and all by name; default .tar.gz

	Parallel int           // downloads at once; default 4
	Limit    int64         // bytes a second, of all downloads together; 0: none
	Once     bool          // end when all is in hand, instead of following
	Check    bool          // first read what is in hand again, and fetch anew what is damaged
	Poll     time.Duration // how long to wait for news, at most; default 1 minute
	Patience time.Duration // with Once: how long a service may not answer; default 5 minutes
	MaxWait  time.Duration // with Once: how long to wait for the account's window; default 24 hours
	Backoff  time.Duration // before the first repetition; default 1 second

	Reporter Reporter // default: reports nothing

	aside time.Duration // how long files may be refused before take-downs are looked for meanwhile; default 1 minute
}

// Summary says what a mirror has done.
type Summary struct {
	Fetched int64 `json:"fetched"` // files
	Bytes   int64 `json:"bytes"`   // of downloads
	Deleted int64 `json:"deleted"` // files
	Since   int64 `json:"since"`   // place in the feed
	Pending int   `json:"pending"` // hosts that are not as the service has them
}

// PendingError says that not all could be had.
type PendingError struct {
	Hosts int
	First string // one of them
	Why   string
}

func (e *PendingError) Error() string {
	return fmt.Sprintf("%d hosts are not as the service has them, such as %s: %s; the next run looks at them again", e.Hosts, e.First, e.Why)
}

// mirror is one run.
type mirror struct {
	Options
	remote remote
	place  *place
	news   gate          // of requests for changes, which a closed window allows
	files  gate          // of requests for files
	limit  *rate.Limiter // nil: none
	slots  chan struct{} // one for each download at once

	changing bool // files are wanted that change with every edition

	progress atomic.Int64 // when the service last gave something; Unix nanoseconds
	fetched  atomic.Int64
	bytes    atomic.Int64
	deleted  atomic.Int64

	mu    sync.Mutex // guards what follows
	state state
	seen  map[uint64]struct{} // what a pass from the beginning was told of; nil: no such pass
}

// Run mirrors until ctx ends or, with Once, until all is in hand.
func Run(ctx context.Context, opt Options) (sum Summary, err error) {
	if err := opt.complete(); err != nil {
		return sum, err
	}
	p, err := openPlace(opt.Dir)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	m := &mirror{Options: opt, place: p, slots: make(chan struct{}, opt.Parallel), changing: slices.ContainsFunc(opt.Forms, isChanging)}
	if opt.Limit > 0 {
		m.limit = rate.NewLimiter(rate.Limit(opt.Limit), int(max(opt.Limit/4, chunk)))
	}
	m.news.note = func(until time.Time, why string) {
		opt.Reporter.Note(Note{Event: "waiting", Until: until, Why: why})
	}
	m.files.note, m.files.aside = m.news.note, opt.aside
	if opt.Once {
		m.news.most, m.files.most = opt.MaxWait, opt.MaxWait
	}
	if m.remote, err = dial(ctx, opt); err != nil {
		return sum, err
	}
	defer m.remote.close()
	m.touch()
	if err := m.begin(); err != nil {
		return sum, m.explain(err)
	}
	err = m.explain(m.follow(ctx))
	return Summary{
		Fetched: m.fetched.Load(), Bytes: m.bytes.Load(), Deleted: m.deleted.Load(),
		Since: m.state.Cursor.Since, Pending: len(m.state.Pending),
	}, err
}

func (o *Options) complete() error {
	if o.URL == "" || o.Dir == "" {
		return errors.New("mirror: needs a URL and a directory")
	}
	if len(o.Forms) == 0 {
		o.Forms = []string{".tar.gz"}
	}
	forms := make([]string, len(o.Forms))
	for i, f := range o.Forms {
		var err error
		if forms[i], err = form(f); err != nil {
			return err
		}
	}
	o.Forms = forms
	slices.Sort(o.Forms)
	o.Forms = slices.Compact(o.Forms)
	o.Parallel = cmp.Or(o.Parallel, 4)
	o.Poll = cmp.Or(o.Poll, time.Minute)
	o.Patience = cmp.Or(o.Patience, 5*time.Minute)
	o.MaxWait = cmp.Or(o.MaxWait, 24*time.Hour)
	o.Backoff = cmp.Or(o.Backoff, time.Second)
	o.aside = cmp.Or(o.aside, time.Minute)
	if o.Reporter == nil {
		o.Reporter = silent{}
	}
	return nil
}

// begin takes up the state that is there.
func (m *mirror) begin() error {
	s, fresh, err := m.place.load()
	if err != nil {
		return err
	}
	wants := wants{Selection: m.Selection, Forms: m.Forms}
	if !fresh && (s.Sweep || !s.Wants.equal(wants)) {
		s.Cursor, s.Sweep = feed.Cursor{}, true
	}
	s.Wants = wants
	m.state = s
	if s.Sweep {
		m.seen = map[uint64]struct{}{}
	}
	return m.place.save(m.state)
}

// follow goes through the feed, page by page.
func (m *mirror) follow(ctx context.Context) error {
	if m.Check {
		if err := m.check(ctx); err != nil {
			return err
		}
	}
	for wait := time.Duration(0); ; {
		page, err := m.changes(ctx, m.state.Cursor, wait)
		if errors.Is(err, errExpired) {
			if err := m.restart(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		err = m.page(ctx, page)
		if err == nil && page.More {
			wait = 0
			continue
		}
		if err == nil {
			err = m.caughtUp(ctx)
		}
		var later *laterError
		if errors.As(err, &later) {
			if err := m.meanwhile(ctx, later.until); err != nil {
				return err
			}
			wait = 0
			continue
		}
		if err != nil {
			return err
		}
		if m.Once {
			return m.pending()
		}
		wait = m.Poll
	}
}

// changes asks for what follows a cursor, as long as it takes.
func (m *mirror) changes(ctx context.Context, at feed.Cursor, wait time.Duration) (page feed.Page, err error) {
	err = m.insist(ctx, &m.news, func() error {
		page, err = m.remote.changes(ctx, at, wait)
		return err
	})
	return page, err
}

// meanwhile looks ahead in the feed while files are refused, and deletes what is
// gone: a take-down does not wait for the account's window. The place in the feed stays.
func (m *mirror) meanwhile(ctx context.Context, until time.Time) error {
	for at := m.state.Cursor; ; {
		left := time.Until(until)
		if left <= 0 {
			return ctx.Err()
		}
		page, err := m.changes(ctx, at, min(m.Poll, left))
		if errors.Is(err, errExpired) {
			return nil // follow sees it too
		}
		if err != nil {
			return err
		}
		err = m.every(ctx, m.plan(page.Events), func(_ context.Context, t *task) error { return m.forget(t) })
		if err := errors.Join(err, m.place.prune()); err != nil {
			return err
		}
		if page.Next == at { // a service may not wait for as long as it is asked to
			if err := sleep(ctx, min(m.Backoff, time.Until(until))); err != nil {
				return err
			}
		}
		at = page.Next
	}
}

// page brings everything into hand that a page tells of, and then moves the place in the feed.
func (m *mirror) page(ctx context.Context, page feed.Page) error {
	m.Reporter.Feed(m.state.Cursor.Since, page.Last)
	if err := m.hosts(ctx, m.plan(page.Events)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.Cursor == page.Next {
		return nil
	}
	m.state.Cursor = page.Next
	m.Reporter.Feed(page.Next.Since, page.Last)
	return m.place.save(m.state)
}

// restart begins anew at the beginning of the feed; what it does not tell of goes in the end.
func (m *mirror) restart() error {
	m.Reporter.Note(Note{Event: "anew", Why: "the service's feed is not the one that was followed; what is in hand and still there stays"})
	if m.state.Cursor.Since == 0 {
		return fmt.Errorf("%w, at its beginning too", errExpired)
	}
	m.state.Cursor, m.state.Sweep = feed.Cursor{}, true
	m.seen = map[uint64]struct{}{}
	return m.place.save(m.state)
}

// caughtUp does what is to be done at the end of the feed.
func (m *mirror) caughtUp(ctx context.Context) error {
	if m.seen != nil {
		if err := m.sweep(); err != nil {
			return err
		}
		m.seen, m.state.Sweep = nil, false
		if err := m.place.save(m.state); err != nil {
			return err
		}
	}
	if len(m.state.Pending) > 0 {
		before := len(m.state.Pending)
		if err := m.hosts(ctx, m.again()); err != nil {
			return err
		}
		if len(m.state.Pending) < before {
			if err := m.place.save(m.state); err != nil {
				return err
			}
		}
	}
	if err := m.place.tidy(); err != nil {
		return err
	}
	m.Reporter.Note(Note{Event: "current", Since: m.state.Cursor.Since, Files: m.fetched.Load(), Bytes: m.bytes.Load(), Deleted: m.deleted.Load()})
	return nil
}

// pending is the error of a run that ends without all in hand.
func (m *mirror) pending() error {
	for path, why := range m.state.Pending {
		return &PendingError{Hosts: len(m.state.Pending), First: path, Why: why}
	}
	return nil
}
