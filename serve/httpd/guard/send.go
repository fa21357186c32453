package guard

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/peer"
	"sheaf/internal/stream"
	"sheaf/internal/transfers"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Sender sends files to consumers and records the transfers. It may be used by many goroutines at
// once.
type Sender struct {
	Recorder transfers.Recorder
	Running  *transfers.Running // is told of downloads under way; may be nil
	Measures *stream.Follower
	Patience time.Duration // for the acknowledgement of the last bytes
	Redirect Redirect      // At 0: all files are sent by this process
	Log      *slog.Logger
}

// File sends an open file, and records the transfer under the file's name. Browsers save it under
// the name download, if that is not empty.
func (s *Sender) File(w http.ResponseWriter, r *http.Request, a *account.Account, f *library.File, name, download string) {
	if r.Method == http.MethodHead {
		Head(w, r, f.Node, download)
		return
	}
	describe(w.Header(), f.Node, download)
	if s.redirected(w, r, a, f, name) {
		return
	}
	BoundRanges(r)
	c := ofFile(r.Context(), f)
	defer c.Close()
	out := &Answer{ResponseWriter: w}
	d := s.begin(r, a, name, out)
	defer d.end(r, c) // also if the handler is aborted
	http.ServeContent(out, r, "", f.Modified, c)
}

// Head answers a HEAD request for a file, and records nothing.
func Head(w http.ResponseWriter, r *http.Request, n library.Node, download string) {
	describe(w.Header(), n, download)
	BoundRanges(r)
	http.ServeContent(w, r, "", n.Modified, &stream.Content{Size: n.Size})
}

// describe sets the headers that describe a file. If download is not empty, browsers save the file
// under that name.
func describe(h http.Header, n library.Node, download string) {
	h.Set("ETag", n.ETag)
	h.Set("Content-Type", n.Type)
	h.Set("X-Content-Type-Options", "nosniff")
	if sum, err := hex.DecodeString(n.SHA256); err == nil && len(sum) > 0 {
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	}
	if download != "" {
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": download}))
	}
}

// maxRanges is how many ranges one request may ask for.
const maxRanges = 64

// BoundRanges removes the Range header if it has more than maxRanges ranges, as RFC 9110 (14.2)
// allows. The whole file is then sent.
func BoundRanges(r *http.Request) {
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		r.Header.Del("Range")
	}
}

// Record records an answer that was not measured, such as a page, under the request's path. It
// counts the bytes written. It ignores HEAD, and answers without status 200 or 206.
func (s *Sender) Record(r *http.Request, a *account.Account, start time.Time, w *Answer) {
	if !w.sent() || r.Method == http.MethodHead {
		return
	}
	t := note(r, a, r.URL.Path, start)
	t.Bytes, t.Took, t.Outcome = w.bytes.Load(), time.Since(start), transfers.OK
	if r.Context().Err() != nil {
		t.Outcome = transfers.Aborted
	}
	s.record(context.WithoutCancel(r.Context()), t)
}

// note begins the record of a transfer.
func note(r *http.Request, a *account.Account, name string, start time.Time) transfers.Transfer {
	return transfers.Transfer{At: start, Direction: transfers.Download, Protocol: "http", Who: a.Name, Name: name, Remote: r.RemoteAddr, Unknown: a.Name == account.Anonymous}
}

func (s *Sender) record(ctx context.Context, t transfers.Transfer) {
	if err := s.Recorder.Record(ctx, t); err != nil {
		s.Log.ErrorContext(ctx, "download not recorded", "account", t.Who, "path", t.Name, "err", err)
	}
}

// Redirect sends clients to the object store for large files that are one whole object there. Such
// a file is counted in full when the client gets its URL, since this process does not learn how
// much of it the client takes. All else is sent by this process: parts of files, answers to
// conditions, and files of accounts whose rate or quota would not let them pass at once.
type Redirect struct {
	At    int64       // size from which on a file is large, in bytes; 0: none is
	Store store.Store // has a store.Presigner within
}

// expires is how long a URL is good for.
const expires = 10 * time.Minute

// url returns where a client may fetch a file until the URL expires; nil if the file is not one
// whole object.
func (x *Redirect) url(ctx context.Context, f *library.File, disposition string) (*url.URL, error) {
	from, ok := store.AsPresigner(x.Store)
	if !ok {
		return nil, fmt.Errorf("the store gives no URLs of its objects")
	}
	info, err := x.Store.Stat(ctx, f.Object)
	switch {
	case err != nil:
		return nil, err
	case info.Size != f.Size:
		return nil, nil
	}
	return from.Presign(ctx, f.Object, store.PresignOptions{Expires: expires, Type: f.Type, Disposition: disposition})
}

// asksForAll reports whether a request is a GET for the whole file, without conditions, that
// another server may answer. It returns false for a script's request, since the other server may
// not let scripts read.
func asksForAll(r *http.Request) bool {
	for _, name := range []string{"Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Origin"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	return r.Method == http.MethodGet && cmp.Or(r.Header.Get("Sec-Fetch-Mode"), "navigate") == "navigate"
}

// redirected answers a request for a large file with a redirect to its object, and reports whether
// it did. The header of w must describe the file.
func (s *Sender) redirected(w http.ResponseWriter, r *http.Request, a *account.Account, f *library.File, name string) bool {
	if s.Redirect.At == 0 || f.Object == "" || f.Size < s.Redirect.At || !asksForAll(r) {
		return false
	}
	h := w.Header()
	to, err := s.Redirect.url(r.Context(), f, h.Get("Content-Disposition"))
	if err != nil {
		s.Log.WarnContext(r.Context(), "no URL of an object for a client", "object", f.Object, "path", name, "err", err)
		return false
	}
	if to == nil || !f.TakeAll() {
		return false
	}
	h.Del("Content-Type") // of the file; this answer has no body
	h.Set("Location", to.String())
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusTemporaryRedirect)
	t := note(r, a, name, time.Now())
	t.Protocol, t.Bytes, t.Outcome = transfers.Redirect, f.Size, transfers.OK
	s.record(context.WithoutCancel(r.Context()), t)
	return true
}

// download is a file that is being sent. If the TCP connection has no TLS and no proxy at its other
// end, the download counts the bytes and the time that the client's acknowledgements show.
// Otherwise it counts what was written. HTTP/2 comes with TLS only.
type download struct {
	sender *Sender
	note   transfers.Transfer
	out    *Answer
	ended  func() // tells Running

	conn  *stream.Conn  // nil: what is written counts
	meter *stream.Meter // nil with conn
}

// begin begins to measure what is sent to out.
func (s *Sender) begin(r *http.Request, a *account.Account, name string, out *Answer) *download {
	d := &download{sender: s, out: out, note: note(r, a, name, time.Now())}
	if conn := stream.ConnOf(r.Context()); conn != nil && r.ProtoMajor == 1 && !peer.Proxied(r.Context()) {
		d.meter = stream.NewMeter(conn.TCPConn)
	}
	if d.meter != nil {
		d.conn, d.note.Acknowledged = stream.ConnOf(r.Context()), true
	}
	d.ended = s.Running.Begin(d.note, d.moved)
	return d
}

// acknowledged returns how many bytes of the body the client has acknowledged, roughly.
func (d *download) acknowledged() int64 { return max(0, d.meter.Acked()-d.out.header.Load()) }

// moved returns how many bytes of the body have been moved so far, roughly.
func (d *download) moved() int64 {
	if d.meter == nil {
		return d.out.bytes.Load()
	}
	return min(d.acknowledged(), d.out.declared.Load())
}

// end records a download with status 200 or 206, now or when its last byte is acknowledged. The
// outcome is Aborted unless all bytes that the header declared were written and, if conn is set,
// acknowledged.
func (d *download) end(r *http.Request, c *content) {
	if !d.out.sent() {
		d.ended()
		return
	}
	s, ctx := d.sender, context.WithoutCancel(r.Context())
	if c.Err() != nil && r.Context().Err() == nil {
		s.Log.ErrorContext(ctx, "download broken off", "account", d.note.Who, "path", d.note.Name, "err", c.Err())
	}
	written := d.out.bytes.Load()
	d.note.Bytes, d.note.Took, d.note.Outcome = written, time.Since(d.note.At), transfers.OK
	if d.out.declared.Load() != written {
		d.note.Outcome = transfers.Aborted
	}
	if d.meter == nil {
		d.record(ctx)
		return
	}
	failed := http.NewResponseController(d.out.ResponseWriter).Flush() // net/http's buffer
	all, known := d.meter.Written()
	if d.out.failed || failed != nil || !known {
		// Nobody can tell how much of what net/http took has reached the system.
		d.note.Outcome = transfers.Aborted
		d.note.Bytes = min(d.acknowledged(), written)
		d.record(ctx)
		return
	}
	release := d.conn.Hold()
	s.Measures.Follow(d.meter, d.note.At, all, s.Patience, func(got stream.Taken) {
		release()
		d.note.Bytes = max(0, written-max(0, all-got.Acked))
		d.note.Took = got.At.Sub(d.note.At)
		if got.Lost {
			d.note.Outcome = transfers.Aborted
		}
		d.record(ctx)
	})
}

func (d *download) record(ctx context.Context) {
	d.sender.record(ctx, d.note)
	d.ended()
}
