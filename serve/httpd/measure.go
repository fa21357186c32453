package httpd

import (
	"context"
	"net/http"
	"time"

	"sheaf/internal/acked"
	"sheaf/internal/peer"
	"sheaf/internal/transfers"
	"sheaf/serve/account"
)

// download is a file that is being sent, and what is noted of it. Bytes and time are by what the
// client has acknowledged, where it is the other end of the connection: not under TLS, by HTTP/2,
// which only comes with it, or through a proxy.
type download struct {
	server *server
	note   transfers.Transfer
	out    *counter
	ended  func() // takes it off those that are under way

	conn  *acked.Conn  // nil: what is written is what counts
	meter *acked.Meter // nil with it
}

// beginDownload begins to measure what is sent to w.
func (s *server) beginDownload(r *http.Request, a *account.Account, name string, out *counter) *download {
	d := &download{server: s, out: out, note: transfers.Transfer{
		At: time.Now(), Direction: transfers.Download, Protocol: "http", Who: a.Name, Name: name, Remote: r.RemoteAddr,
	}}
	if conn := acked.From(r.Context()); conn != nil && r.ProtoMajor == 1 && !peer.Proxied(r.Context()) {
		d.meter = acked.Begin(conn.TCPConn)
	}
	if d.meter != nil {
		d.conn, d.note.Acknowledged = acked.From(r.Context()), true
	}
	d.ended = s.Running.Begin(d.note, d.moved)
	return d
}

// moved is how many bytes of the body have been moved so far, about.
func (d *download) moved() int64 {
	if d.meter == nil {
		return d.out.bytes.Load()
	}
	return min(max(0, d.meter.Acked()-d.out.header.Load()), d.out.declared.Load())
}

// end notes the download, now or when its last byte is acknowledged. A client that has gone took
// fewer bytes than were declared.
func (d *download) end(r *http.Request, c *content) {
	if d.out.status != http.StatusOK && d.out.status != http.StatusPartialContent {
		d.ended()
		return // nothing was to be sent
	}
	s, ctx := d.server, context.WithoutCancel(r.Context())
	if c.err != nil && r.Context().Err() == nil {
		s.Log.ErrorContext(ctx, "download broken off", "account", d.note.Who, "path", d.note.Name, "err", c.err)
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
	failed := http.NewResponseController(d.out.ResponseWriter).Flush() // of what lies in net/http's buffer
	if d.out.failed || failed != nil {
		// Nobody can tell how much of what net/http took has reached the system.
		d.note.Outcome = transfers.Aborted
		d.note.Bytes = min(max(0, d.meter.Acked()-d.out.header.Load()), written)
		d.record(ctx)
		return
	}
	all, release := d.meter.Written(), d.conn.Hold()
	s.Measures.Follow(d.meter, d.note.At, all, stallTime, func(got acked.Result) {
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
	defer d.ended()
	if err := d.server.Recorder.Record(ctx, d.note); err != nil {
		d.server.Log.ErrorContext(ctx, "download not recorded", "account", d.note.Who, "path", d.note.Name, "err", err)
	}
}

// headerSize is about how many bytes an answer's header has on the wire.
func headerSize(h http.Header) int64 {
	n := len("HTTP/1.1 206 Partial Content\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n\r\n")
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(": \r\n") + len(v)
		}
	}
	return int64(n)
}
