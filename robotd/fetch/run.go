package fetch

import (
	"context"
	"errors"

	"sheaf/internal/weburl"
)

// Source gets pages: a Fetcher by itself, a Head by its hands.
type Source interface {
	Get(ctx context.Context, req Request) (*Response, error)
	Run() Session
}

// Session is a run at a Source, as Run is at a Fetcher.
type Session interface {
	Get(ctx context.Context, req Request) (*Response, error)
	Live() bool
	Close()
}

// Run fetches pages of one host, one after another, over one connection, as long as the server
// keeps it (Keep-Alive or HTTP/2). It must not be used concurrently.
type Run struct {
	f    *Fetcher
	conn *connection // nil before the first page, and once the server has closed it
	host string      // scheme and authority that conn leads to
	over bool        // the connection is closed, and no second one is made
}

// errRunOver means that the run has no connection for the page: it is closed, or leads to another
// host.
var errRunOver = errors.New("the server has closed the connection")

// Run begins a run. Close must be called.
func (f *Fetcher) Run() Session { return &Run{f: f} }

// Get fetches the next page of the run. If the server has closed the connection meanwhile, the
// error's kind is Over: no request was sent, and the page may be fetched in another run.
func (r *Run) Get(ctx context.Context, req Request) (*Response, error) {
	return r.f.timed(ctx, req, r)
}

// Live reports whether the connection can carry another page.
func (r *Run) Live() bool { return r.conn != nil }

// Close ends the run and closes its connection. It may be called again.
func (r *Run) Close() {
	if r.conn != nil {
		r.f.close(r.conn)
		r.conn = nil
	}
	r.over = true
}

// connection returns the connection of the run, or makes the first one; used tells which. A nil Run
// makes one for a single fetch.
func (r *Run) connection(ctx context.Context, f *Fetcher, u *weburl.URL, req Request) (c *connection, used bool, err error) {
	if r == nil {
		c, err = f.connect(ctx, u, req.Addr)
		return c, false, err
	}
	if c = r.conn; c != nil && r.host == origin(u) {
		r.conn = nil
		c.wire.in.Store(0)
		c.wire.out.Store(0)
		return c, true, nil
	}
	if r.over || r.conn != nil {
		return nil, true, errRunOver
	}
	r.over = true // no second connection is made
	if c, err = f.connect(ctx, u, req.Addr); err == nil {
		c.again = true
	}
	return c, false, err
}

func (r *Run) keep(c *connection, u *weburl.URL) {
	r.conn, r.host = c, origin(u)
}

func origin(u *weburl.URL) string { return u.Scheme() + "://" + u.Host() }
