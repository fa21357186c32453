package guard

import (
	"context"
	"net/http"
	"time"

	"sheaf/internal/peer"
	"sheaf/internal/stream"
	"sheaf/internal/transfers"
	"sheaf/serve/account"
)

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
func (d *download) end(r *http.Request, c *Content) {
	if !d.out.sent() {
		d.ended()
		return
	}
	s, ctx := d.sender, context.WithoutCancel(r.Context())
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
