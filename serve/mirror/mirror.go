// Package mirror keeps a copy of a service's archives in a directory, over HTTP or FTP, and follows
// the change feed to keep it up to date.
//
// The directory has the layout of the service's tree: hosts by their reversed names, the files of
// editions, and in each host's directory a MANIFEST and SHA256SUMS of the files that are there. A
// file only gets its name when it is complete and verified. Partial files, and the position in the
// feed, are in .sheaf-mirror. The position advances when everything before it is on disk, and every
// step can be repeated. So a mirror that was killed at any moment continues where it was.
//
// A file may be impossible to fetch: it has changed since its event, or arrives damaged several
// times. Then its host becomes pending, and the mirror goes on. Pending hosts are compared with the
// service's MANIFEST each time the end of the feed is reached.
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

	"sheaf/internal/api"
	"sheaf/internal/loop"
	"sheaf/internal/preference"
)

// Options of a mirror. URL and Dir are needed.
type Options struct {
	URL       string // http, https, ftp or ftpes (FTP with AUTH TLS); a name and password in it are the account's
	Dir       string
	User      string // where the URL has none
	Password  string
	CAFile    string // PEM file with the authorities for the service's certificate; default the system's
	Selection api.Selection
	Honour    []string // leave out hosts whose robots.txt asks this: see preference.ParseFilter
	Forms     []string // what to keep: of editions by suffix, current and all by name; default .tar.gz
	Tables    []string // top-level domains whose tables are kept, of days and latest versions, whatever Selection says

	Parallel int           // downloads at once; default 4
	Limit    int64         // bytes a second, of all downloads together; 0: none
	Once     bool          // end when everything is fetched, instead of following the feed
	Check    bool          // first read all files again, and fetch damaged ones
	Poll     time.Duration // how long to wait for news, at most; default 1 minute
	Patience time.Duration // with Once: how long a service may not answer; default 5 minutes
	MaxWait  time.Duration // with Once: how long to wait for the account's window; default 24 hours
	Backoff  time.Duration // before the first repetition; default 1 second

	Reporter Reporter // default: reports nothing

	aside time.Duration // if files are refused for longer, look for take-downs meanwhile; default 1 minute
}

// Summary is the result of a run.
type Summary struct {
	Fetched int64 `json:"fetched"` // files
	Bytes   int64 `json:"bytes"`   // of downloads
	Deleted int64 `json:"deleted"` // files
	Since   int64 `json:"since"`   // position in the feed
	Pending int   `json:"pending"` // hosts that differ from the service's
}

// PendingError says that not everything could be fetched.
type PendingError struct {
	Hosts int
	First string // one of them
	Why   string
}

func (e *PendingError) Error() string {
	return fmt.Sprintf("%d hosts differ from the service's, such as %s: %s; the next run tries them again", e.Hosts, e.First, e.Why)
}

// mirror is one run.
type mirror struct {
	Options
	remote remote
	place  *place
	news   gate          // of requests for changes, which are also allowed outside the account's window
	files  gate          // of requests for files
	limit  *rate.Limiter // nil: none
	slots  chan struct{} // holds an element for each download under way

	honour []preference.Filter

	changing bool // some wanted files change with every edition

	progress atomic.Int64 // when the service last sent something; Unix nanoseconds
	fetched  atomic.Int64
	bytes    atomic.Int64
	deleted  atomic.Int64

	mu    sync.Mutex // guards what follows
	state state
	seen  map[uint64]struct{} // files in the feed during a pass from its beginning; nil: no such pass
}

// Run mirrors until ctx ends or, with Once, until everything is fetched.
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
	if m.honour, err = filters(opt.Honour); err != nil {
		return sum, err
	}
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
	err = m.follow(ctx)
	if err != nil && ctx.Err() == nil && m.state.Tables.Withdrawn {
		err = errors.Join(err, m.dropTables())
	}
	err = m.explain(err)
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
	if err := checkTables(o.Tables); err != nil {
		return err
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

// begin loads the state of an earlier run.
func (m *mirror) begin() error {
	s, fresh, err := m.place.load()
	if err != nil {
		return err
	}
	wants := wants{Selection: m.Selection, Forms: m.Forms, Honour: m.Honour, Tables: m.Tables}
	if !fresh && (s.Sweep || !s.Wants.equal(wants)) {
		s.Cursor, s.Sweep, s.Refused = api.Cursor{}, true, map[string]string{}
	}
	s.Wants, s.Tables.until = wants, time.Now().Add(changes)
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
		if later, ok := errors.AsType[*laterError](err); ok {
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

// changes returns what follows a cursor. It repeats the request as long as that may help.
func (m *mirror) changes(ctx context.Context, at api.Cursor, wait time.Duration) (page api.Page, err error) {
	err = m.insist(ctx, &m.news, func() error {
		page, err = m.remote.changes(ctx, at, wait)
		return err
	})
	return page, err
}

// meanwhile reads ahead in the feed until a time, while files are refused, and deletes what is
// taken down: that must not wait for the account's window. The position in the feed stays.
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
		if m.noteTables(page.Events); m.state.Tables.Withdrawn { // which tables must go can only be asked when the service answers
			err = errors.Join(err, m.dropTables())
		}
		if err := errors.Join(err, m.place.prune()); err != nil {
			return err
		}
		if page.Next == at { // a service may answer sooner than asked
			if err := loop.Sleep(ctx, min(m.Backoff, time.Until(until))); err != nil {
				return err
			}
		}
		at = page.Next
	}
}

// page does everything that a page of events asks for, and then advances the position in the feed.
func (m *mirror) page(ctx context.Context, page api.Page) error {
	m.Reporter.Feed(m.state.Cursor.Since, page.Last)
	m.noteTables(page.Events)
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

// restart goes back to the beginning of the feed. At its end, files of which it said nothing are
// deleted.
func (m *mirror) restart() error {
	m.Reporter.Note(Note{Event: "anew", Why: "the service's feed is not the one that was followed; what is in hand and still there stays"})
	if m.state.Cursor.Since == 0 {
		return fmt.Errorf("%w, at its beginning too", errExpired)
	}
	m.state.Cursor, m.state.Sweep, m.state.Refused = api.Cursor{}, true, map[string]string{}
	m.seen = map[uint64]struct{}{}
	return m.place.save(m.state)
}

// caughtUp does the work at the end of the feed.
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
	if err := m.tables(ctx); err != nil {
		return err
	}
	if err := m.place.tidy(); err != nil {
		return err
	}
	m.Reporter.Note(Note{Event: "current", Since: m.state.Cursor.Since, Files: m.fetched.Load(), Bytes: m.bytes.Load(), Deleted: m.deleted.Load()})
	return nil
}

// pending returns the error of a run that ends although hosts are pending.
func (m *mirror) pending() error {
	for path, why := range m.state.Pending {
		return &PendingError{Hosts: len(m.state.Pending), First: path, Why: why}
	}
	return nil
}
