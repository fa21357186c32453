package ftp

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"sheaf/internal/acked"
)

// secondLook is how long after the end of an upload's data the control
// connection is watched on: a killed client's two connections end in any order.
const secondLook = 50 * time.Millisecond

// transfer is the time in which a data channel is in use and the control
// connection is watched. Its context ends when the client goes or sends ABOR.
type transfer struct {
	conn   *conn
	ctx    context.Context
	cancel context.CancelCauseFunc
	watch  *watch

	direction Direction
	path      string
	begun     time.Time
	data      *data  // nil before it is open
	ended     func() // see Watched
}

// begin starts to watch; end must follow, and until then no command is read.
func (c *conn) begin(direction Direction, path string) *transfer {
	t := &transfer{conn: c, direction: direction, path: path, begun: time.Now(), ended: func() {}}
	t.ctx, t.cancel = context.WithCancelCause(c.ctx)
	t.watch = c.watch(t.cancel)
	return t
}

func (t *transfer) end() {
	t.watch.stop()
	t.cancel(nil)
}

// over calls work with the data channel and closes it. A clean end of the data
// gives nil; if the transfer was stopped meanwhile, the error says why.
func (t *transfer) over(announcement string, work func(*data) error) error {
	c := t.conn
	ch := c.channel
	c.channel = nil
	defer ch.Close()
	c.reply(150, "%s", announcement)
	d, err := c.openData(t.ctx, ch)
	if err == nil {
		t.open(d)
		unhook := context.AfterFunc(t.ctx, d.reset)
		if err = work(d); err != nil {
			d.reset()
		} else {
			d.finish()
		}
		unhook()
	}
	if cause := context.Cause(t.ctx); cause != nil {
		return cause
	}
	return err
}

// open tells the session of a transfer that moves bytes. Listings are none.
func (t *transfer) open(d *data) {
	if t.direction == "" {
		return
	}
	t.data = d
	if t.direction == Downloaded {
		d.measure()
	}
	if w, ok := t.conn.session.(Watched); ok {
		t.ended = w.Begun(Transfer{Direction: t.direction, Path: t.path, Acknowledged: d.meter != nil}, d.progress)
	}
}

// mostFollowed is how many downloads of one control connection may be unacknowledged at once; of
// more it is not known when they arrive.
const mostFollowed = 8

var errUnacknowledged = errors.New("the client has not acknowledged all of it")

// close tells the session what the transfer has come to, now or when that is known.
func (t *transfer) close(bytes int64, took time.Duration, err error) {
	d, session := t.data, t.conn.session
	done := Transfer{Direction: t.direction, Path: t.path, Bytes: bytes, Took: took, Err: err}
	tell := func() {
		session.Transferred(done)
		t.ended()
	}
	if d == nil || d.meter == nil {
		tell()
		return
	}
	done.Acknowledged = true
	if err != nil {
		done.Bytes = min(bytes, d.meter.Acked())
		tell()
		return
	}
	if t.conn.followed.Add(1) > mostFollowed {
		t.conn.followed.Add(-1)
		d.tcp.Close()
		done.Acknowledged = false
		tell()
		return
	}
	t.conn.engine.follower.Follow(d.meter, t.begun, bytes, d.timeout, func(r acked.Result) {
		t.conn.followed.Add(-1)
		d.tcp.Close()
		done.Bytes, done.Took = min(bytes, r.Acked), r.At.Sub(t.begun)
		if r.Lost {
			done.Err = errUnacknowledged
		}
		tell()
	})
}

// ready refuses a transfer for which no data channel has been chosen.
func (c *conn) ready() bool {
	switch {
	case c.engine.RequireTLS && !c.private:
		c.reply(521, "Data connections must be encrypted here: send PBSZ 0 and PROT P first")
	case c.channel == nil:
		c.reply(425, "Use PASV or EPSV first")
	default:
		return true
	}
	return false
}

// fail tells the client why a command did not succeed.
func (c *conn) fail(err error) {
	var (
		answer *Error
		nodata errNoData
		broken errData
	)
	switch {
	case errors.Is(err, errAborted):
		c.reply(426, "Transfer aborted")
	case errors.Is(err, errLost), errors.Is(err, errStopped):
		c.reply(426, "Transfer aborted: connection closed")
	case c.ctx.Err() != nil, errors.Is(err, context.Canceled): // the client has gone, and nobody failed
		c.reply(426, "Transfer aborted")
	case errors.As(err, &answer) && answer.Code >= 400 && answer.Code <= 599:
		c.reply(answer.Code, "%s", answer.Msg)
		c.hangup = c.hangup || answer.Code == 421
	case errors.As(err, &nodata):
		c.reply(425, "Cannot open the data connection")
	case errors.As(err, &broken) && errors.Is(err, os.ErrDeadlineExceeded):
		c.reply(426, "No data moved, or next to none, for %v; transfer aborted", c.engine.DataTimeout)
	case errors.As(err, &broken):
		c.reply(426, "Data connection broken; transfer aborted")
	default:
		c.log.Error("ftp: command failed", "user", c.account, "error", err)
		c.reply(451, "Local error; try again later")
	}
}

func (c *conn) takeRest() int64 {
	offset := c.rest
	c.rest = 0
	return offset
}

// setRest answers REST.
func (c *conn) setRest(arg string) {
	n, err := strconv.ParseUint(arg, 10, 63)
	if err != nil {
		c.reply(501, "REST takes an offset in bytes")
		return
	}
	c.rest = int64(n)
	c.reply(350, "The next transfer starts at byte %d", n)
}

// retr answers RETR.
func (c *conn) retr(arg string) {
	offset := c.takeRest()
	path, ok := c.path(arg)
	if !ok || !c.ready() {
		return
	}
	e, err := c.session.Stat(c.ctx, path)
	switch {
	case err != nil:
		c.fail(err)
		return
	case e.Dir:
		c.reply(550, "%s is a directory", path)
		return
	case offset > e.Size:
		c.reply(554, "Byte %d lies beyond the end of the file, which has %d", offset, e.Size)
		return
	}
	t := c.begin(Downloaded, path)
	defer t.end()
	f, err := c.session.Open(t.ctx, path, offset)
	if err != nil {
		c.fail(err)
		return
	}
	defer f.Close()
	var sent int64
	err = t.over("Sending "+path+" ("+strconv.FormatInt(e.Size-offset, 10)+" bytes)", func(d *data) (err error) {
		sent, err = d.send(t.ctx, f)
		return err
	})
	t.close(sent, time.Since(t.begun), err)
	if err != nil {
		c.fail(err)
		return
	}
	c.reply(226, "Sent %d bytes", sent)
}

// stor answers STOR; appe answers APPE.
func (c *conn) stor(arg string) { c.store(arg, c.takeRest()) }

func (c *conn) appe(arg string) {
	if c.takeRest() != 0 {
		c.reply(503, "REST does not go with APPE; use STOR")
		return
	}
	c.store(arg, Append)
}

func (c *conn) store(arg string, offset int64) {
	path, ok := c.path(arg)
	if !ok || !c.ready() {
		return
	}
	t := c.begin(Uploaded, path)
	defer t.end()
	up, err := c.session.Create(t.ctx, path, offset)
	if err != nil {
		c.fail(err)
		return
	}
	got, took, err := t.fill(up, path)
	t.close(got, took, err)
	if err != nil {
		c.fail(err)
		return
	}
	c.reply(226, "Received %d bytes", got)
}

// fill receives the data of an upload and commits or aborts it; took is the
// time for the data alone.
func (t *transfer) fill(up Upload, path string) (got int64, took time.Duration, err error) {
	cause := errors.New("the transfer crashed")
	defer func() {
		if cause != nil {
			up.Abort(cause)
		}
	}()
	start := time.Now()
	err = t.over("Receiving "+path, func(d *data) (err error) {
		got, err = d.receive(up)
		return err
	})
	took = time.Since(start)
	if err == nil {
		err = t.settle(up)
	}
	if cause = err; err == nil {
		err = up.Commit()
	}
	return got, took, err
}

// settle takes the second look, and with it the last: Commit is not watched.
func (t *transfer) settle(up Upload) error {
	if _, proves := up.(SelfProving); !proves {
		t.watch.linger(secondLook)
	}
	return t.watch.stop()
}
