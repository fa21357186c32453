package mirror

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jlaffaye/ftp"

	"sheaf/internal/api"
	"sheaf/internal/loop"
	"sheaf/serve/client"
)

// ftpRemote is a remote over FTP, with one connection for each open file.
type ftpRemote struct {
	life           context.Context // of the connections
	addr, dir      string
	user, password string
	tls            *tls.Config // nil: clear text

	mu   sync.Mutex // guards idle
	idle []*ftpConn
}

func newFTP(ctx context.Context, to *url.URL, user, password string, trusted *x509.CertPool) *ftpRemote {
	port := cmp.Or(to.Port(), "21")
	if user == "" {
		user, password = "anonymous", "sheaf@"
	}
	r := &ftpRemote{life: ctx, addr: net.JoinHostPort(to.Hostname(), port), dir: to.Path, user: user, password: password}
	if to.Scheme == "ftpes" {
		// some services require the TLS session of the control connection for data connections
		r.tls = &tls.Config{ServerName: to.Hostname(), RootCAs: trusted, ClientSessionCache: tls.NewLRUClientSessionCache(0), MinVersion: tls.VersionTLS12}
	}
	return r
}

// ftpConn is a control connection. listing is true while its data connections bring listings.
type ftpConn struct {
	*ftp.ServerConn
	listing bool
}

// maxListing is the limit for a listing, in bytes.
const maxListing = 1 << 20

// dial opens a control connection. Its data connections go to the same host, whatever the reply to
// PASV says: a service behind NAT may name an address that only works on its own side.
func (r *ftpRemote) dial() (c *ftpConn, err error) {
	c = new(ftpConn)
	var control net.Conn
	options := []ftp.DialOption{ftp.DialWithDialFunc(func(network, addr string) (net.Conn, error) {
		if control == nil {
			c, err := r.connection(network, addr)
			control = c
			return c, err
		}
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(control.RemoteAddr().String())
		if err != nil {
			return nil, err
		}
		data, err := r.connection(network, net.JoinHostPort(host, port))
		if err == nil && r.tls != nil {
			data = tls.Client(data, r.tls) // with its own dial function, the library only secures the control connection
		}
		if err == nil && c.listing {
			data = &bounded{data, maxListing}
		}
		return data, err
	})}
	if r.tls != nil {
		options = append(options, ftp.DialWithExplicitTLS(r.tls))
	}
	c.ServerConn, err = ftp.Dial(r.addr, options...)
	return c, err
}

func (r *ftpRemote) connection(network, addr string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: stall}
	c, err := dialer.DialContext(r.life, network, addr)
	if err != nil {
		return nil, err
	}
	return &timely{Conn: c, stop: context.AfterFunc(r.life, func() { c.Close() })}, nil
}

// timely is a connection whose reads and writes must each make progress within the time stall.
type timely struct {
	net.Conn
	stop func() bool
}

func (c *timely) Read(p []byte) (int, error) {
	c.SetReadDeadline(time.Now().Add(stall))
	return c.Conn.Read(p)
}

func (c *timely) Write(p []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(stall))
	return c.Conn.Write(p)
}

func (c *timely) Close() error {
	c.stop()
	return c.Conn.Close()
}

// bounded is a connection that fails when more than left bytes have come.
type bounded struct {
	net.Conn
	left int
}

func (c *bounded) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left -= n; c.left < 0 {
		return 0, fmt.Errorf("a listing of more than %d bytes", maxListing)
	}
	return n, err
}

// changes reads the files below /feed. A tile of the feed makes a page.
func (r *ftpRemote) changes(ctx context.Context, at api.Cursor, wait time.Duration) (page api.Page, err error) {
	for deadline := time.Now().Add(wait); ; {
		latest, err := r.latest(ctx)
		if err != nil {
			return page, err
		}
		switch {
		case latest.Cursor == at || at.Since == 0 && latest.Since == 0:
		case latest.Since <= at.Since:
			return page, errExpired
		default:
			return r.page(ctx, at, latest)
		}
		page.Next, page.Last = at, latest.Since
		if time.Until(deadline) <= 0 {
			return page, nil
		}
		if !loop.Pause(ctx, time.Until(deadline)) {
			return page, ctx.Err()
		}
	}
}

func (r *ftpRemote) latest(ctx context.Context) (l api.Latest, err error) {
	f, err := r.open(ctx, "/"+api.Dir+"/"+api.Newest, 0, "")
	if errors.Is(err, errGone) {
		return l, nil // nothing was ever published
	}
	if err != nil {
		return l, err
	}
	err = json.NewDecoder(io.LimitReader(f.Body, maxLatest)).Decode(&l)
	return l, errors.Join(err, f.Body.Close())
}

const maxLatest = 64 << 10 // bytes

// page returns the first tile after a cursor. It checks that the cursor is of this feed.
func (r *ftpRemote) page(ctx context.Context, at api.Cursor, latest api.Latest) (api.Page, error) {
	if at.Since > 0 {
		_, before, err := r.tile(ctx, api.Tile{From: at.Since, To: at.Since})
		switch {
		case errors.Is(err, errGone), err == nil && before.Mark != at.Mark:
			return api.Page{}, errExpired
		case err != nil:
			return api.Page{}, err
		}
	}
	t := api.Tiles(at.Since, latest.Since)[0]
	events, h, err := r.tile(ctx, t)
	events = slices.DeleteFunc(events, func(e api.Event) bool { return e.Seq <= at.Since })
	return api.Page{Events: events, Next: api.Cursor{Since: t.To, Mark: h.Mark}, More: t.To < latest.Since, Last: latest.Since}, err
}

func (r *ftpRemote) tile(ctx context.Context, t api.Tile) (events []api.Event, h api.Header, err error) {
	f, err := r.open(ctx, t.Path(), 0, "")
	if err != nil {
		return nil, h, err
	}
	defer func() {
		if closed := f.Body.Close(); err == nil {
			err = closed
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", t.Path(), err)
		}
	}()
	z, err := gzip.NewReader(f.Body)
	if err != nil {
		return nil, h, err
	}
	in := json.NewDecoder(io.LimitReader(z, maxText))
	if err := in.Decode(&h); err != nil {
		return nil, h, err
	}
	if h.Tile != t {
		return nil, h, fmt.Errorf("holds %v", h.Tile)
	}
	for {
		var e api.Event
		err := in.Decode(&e)
		if err == io.EOF {
			return events, h, nil
		}
		if err != nil {
			return nil, h, err
		}
		events = append(events, e)
	}
}

// cannotGoOn is the reply to a REST that is refused: the file has changed, or the service does not
// know which version the beginning belongs to.
const cannotGoOn = 554

func (r *ftpRemote) open(ctx context.Context, name string, from int64, _ string) (*client.File, error) {
	var resp *ftp.Response
	retrieve := func(c *ftpConn) (err error) {
		resp, err = c.RetrFrom(path.Join("/", r.dir, name), uint64(from))
		return err
	}
	c, err := r.do(ctx, retrieve)
	if reply, ok := errors.AsType[*textproto.Error](err); from > 0 && ok && reply.Code == cannotGoOn {
		from = 0
		c, err = r.do(ctx, retrieve)
	}
	if err != nil {
		return nil, answer(err)
	}
	stop := context.AfterFunc(ctx, func() { resp.SetDeadline(time.Unix(1, 0)) })
	return &client.File{Body: &retrieval{Response: resp, conn: c, of: r, stop: stop}, From: from, Size: -1}, nil
}

func (r *ftpRemote) folders(ctx context.Context, dir string) (names []string, err error) {
	c, err := r.do(ctx, func(c *ftpConn) (err error) {
		c.listing = true
		defer func() { c.listing = false }()
		names, err = c.NameList(path.Join("/", r.dir, dir))
		return err
	})
	if err != nil {
		return nil, answer(err)
	}
	r.release(c)
	return names, nil
}

// do gives a command on an idle connection or a new one, and returns the connection if the command
// succeeds. The connection is the caller's then.
func (r *ftpRemote) do(ctx context.Context, command func(*ftpConn) error) (*ftpConn, error) {
	for {
		c, used, err := r.connect()
		if err != nil {
			return nil, err
		}
		if err = command(c); err == nil {
			return c, nil
		}
		if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code != ftp.StatusNotAvailable {
			r.release(c)
			return nil, err
		}
		c.Quit()
		if !used || ctx.Err() != nil {
			return nil, err
		}
		// the service has closed a connection that was idle: take another
	}
}

// connect returns an idle connection, with used true, or a new one.
func (r *ftpRemote) connect() (c *ftpConn, used bool, err error) {
	r.mu.Lock()
	if n := len(r.idle); n > 0 {
		c, r.idle = r.idle[n-1], r.idle[:n-1]
	}
	r.mu.Unlock()
	if c != nil {
		return c, true, nil
	}
	if c, err = r.dial(); err != nil {
		return nil, false, r.without(err)
	}
	if err := c.Login(r.user, r.password); err != nil {
		c.Quit()
		return nil, false, r.without(err)
	}
	return c, false, nil
}

// without turns a reply into a refusedError if it shows that only one of the two sides has TLS. The
// library keeps the text of replies to USER, and not the code.
func (r *ftpRemote) without(err error) error {
	var reply *textproto.Error
	switch {
	case r.tls == nil && strings.Contains(err.Error(), "TLS"):
		return &refusedError{fmt.Sprintf("%v: give an ftpes:// URL", err)}
	case r.tls != nil && errors.As(err, &reply) && reply.Code/10 == 50: // any unknown command is answered so
		return &refusedError{fmt.Sprintf("the service has no TLS: %v", err)}
	}
	return err
}

func (r *ftpRemote) release(c *ftpConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, c)
}

func (r *ftpRemote) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.idle {
		c.Quit()
	}
	r.idle = nil
}

// retrieval is a file that is being read.
type retrieval struct {
	*ftp.Response
	conn  *ftpConn
	of    *ftpRemote
	stop  func() bool
	ended bool // the data channel was read to its end
}

func (d *retrieval) Read(p []byte) (int, error) {
	n, err := d.Response.Read(p)
	d.ended = d.ended || err == io.EOF
	return n, err
}

// Close also returns an error if the service does not say that it has sent everything.
func (d *retrieval) Close() error {
	d.stop()
	if !d.ended {
		d.Response.SetDeadline(time.Unix(1, 0))
		err := d.Response.Close()
		d.conn.Quit()
		_ = err // that the transfer was cut is known
		return nil
	}
	if err := d.Response.Close(); err != nil {
		d.conn.Quit()
		return answer(err)
	}
	d.of.release(d.conn)
	return nil
}

// openingTime matches the time at which a window opens, as the service writes it.
var openingTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// answer converts an FTP reply to an error of a remote.
func answer(err error) error {
	var reply *textproto.Error
	if !errors.As(err, &reply) {
		return err
	}
	switch reply.Code {
	case ftp.StatusFileUnavailable: // 550
		return errGone
	case ftp.StatusNotLoggedIn: // 530
		return &refusedError{reply.Error()}
	case ftp.StatusFileActionIgnored: // 450: outside the account's window
		if at, err := time.Parse(time.RFC3339, openingTime.FindString(reply.Msg)); err == nil {
			return &laterError{at, reply.Msg}
		}
		return &refusedError{reply.Error()}
	case ftp.StatusNotAvailable: // 421
		return &laterError{time.Now().Add(busyPause), reply.Msg}
	}
	return err
}
