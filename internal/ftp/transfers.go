package ftp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"sheaf/internal/stream"
)

// transfers has the commands that use a data connection.
type transfers struct {
	d        *dialogue
	tree     *tree
	ports    *ports
	follower *stream.Follower

	rest     int64        // from REST, for the next transfer
	followed atomic.Int32 // downloads that are sent and not yet acknowledged
}

// takeRest returns the offset for the next transfer, and resets it to 0.
func (t *transfers) takeRest() int64 {
	offset := t.rest
	t.rest = 0
	return offset
}

// setRest answers REST: it keeps the offset for the next transfer.
func (t *transfers) setRest(arg string) error {
	n, err := strconv.ParseUint(arg, 10, 63)
	if err != nil {
		return refuse(501, "REST takes an offset in bytes")
	}
	t.rest = int64(n)
	return t.d.reply(350, "The next transfer starts at byte %d", n)
}

// abor answers ABOR. If the ABOR ended a transfer, the transfer's reply has been sent before.
func (t *transfers) abor(string) error {
	t.ports.drop()
	t.rest = 0
	return t.d.reply(226, "No transfer is running any more")
}

// path returns the absolute path that an argument names, if a data connection is chosen.
func (t *transfers) path(arg string) (string, error) {
	path, err := t.tree.path(arg)
	return path, cmp.Or(err, t.ports.ready())
}

// stat is like path, but also returns the entry at the path.
func (t *transfers) stat(arg string) (path string, e Entry, err error) {
	if path, err = t.path(arg); err == nil {
		e, err = t.tree.session.Stat(t.d.ctx, path)
	}
	return path, e, err
}

// retr answers RETR. The size in its 150 reply comes from Stat, before the file is opened: by then,
// a file of the latest versions may have been replaced.
func (t *transfers) retr(arg string) error {
	offset := t.takeRest()
	path, e, err := t.stat(arg)
	switch {
	case err != nil:
		return err
	case e.Dir:
		return refuse(550, "%s is a directory", path)
	case offset > e.Size:
		return refuse(554, "Byte %d lies beyond the end of the file, which has %d", offset, e.Size)
	}
	transfer := t.begin(Downloaded, path)
	defer transfer.end()
	f, err := t.tree.session.Open(transfer.ctx, path, offset)
	if err != nil {
		return err
	}
	defer f.Close()
	var sent int64
	err = transfer.run("Sending "+path+" ("+strconv.FormatInt(e.Size-offset, 10)+" bytes)", func(c *dataConn) (err error) {
		sent, err = send(transfer.ctx, c, f)
		return err
	})
	transfer.record(sent, time.Since(transfer.begun), err)
	if err != nil {
		return err
	}
	return t.d.reply(226, "Sent %d bytes", sent)
}

// send sends a file to its end, by sendfile(2) where that is possible.
func send(ctx context.Context, c *dataConn, f File) (sent int64, err error) {
	want := int64(-1)
	if sized, ok := f.(Sized); ok {
		want = sized.Remaining()
	}
	var extents stream.Reader
	if local, ok := f.(Local); ok && c.Plain {
		if extents, err = local.Extents(); err != nil {
			return 0, err
		}
	}
	if extents == nil {
		sent, err = c.Send(f)
	} else {
		defer extents.Close()
		pace := func(_ context.Context, n int64) (int64, error) { return n, nil }
		if paced, ok := f.(Paced); ok {
			pace = paced.Pace
		}
		sent, err = c.SendExtents(ctx, extents, pace)
	}
	if err == nil && want >= 0 && sent != want {
		err = fmt.Errorf("file ended after %d of %d bytes: %w", sent, want, io.ErrUnexpectedEOF)
	}
	return sent, err
}

// stor answers STOR, from the offset that REST has set.
func (t *transfers) stor(arg string) error { return t.store(arg, t.takeRest()) }

// appe answers APPE. It refuses an offset that REST has set.
func (t *transfers) appe(arg string) error {
	if t.takeRest() != 0 {
		return refuse(503, "REST does not go with APPE; use STOR")
	}
	return t.store(arg, Append)
}

func (t *transfers) store(arg string, offset int64) error {
	path, err := t.path(arg)
	if err != nil {
		return err
	}
	transfer := t.begin(Uploaded, path)
	defer transfer.end()
	up, err := t.tree.session.Create(transfer.ctx, path, offset)
	if err != nil {
		return err
	}
	got, took, err := transfer.receive(up)
	transfer.record(got, took, err)
	if err != nil {
		return err
	}
	return t.d.reply(226, "Received %d bytes", got)
}

const (
	// secondLook is how long the control connection is watched after the end of an upload's data.
	// The two connections of a killed client end in any order.
	secondLook = 50 * time.Millisecond
	// maxFollowed is how many unacknowledged downloads of one control connection are followed at
	// once. Nobody learns when further downloads arrive.
	maxFollowed = 8
)

var errUnacknowledged = errors.New("the client has not acknowledged all of it")

// transfer is one use of a data connection. Meanwhile the control connection is watched, and no
// command is read.
type transfer struct {
	of     *transfers
	ctx    context.Context // ends when the client goes or sends ABOR
	cancel context.CancelCauseFunc
	watch  *Watch

	direction Direction // "" for a listing
	path      string
	begun     time.Time
	conn      *dataConn // nil before it is open
	ended     func()    // see Watched
}

// begin starts a transfer; end must be called.
func (t *transfers) begin(direction Direction, path string) *transfer {
	x := &transfer{of: t, direction: direction, path: path, begun: time.Now(), ended: func() {}}
	x.ctx, x.cancel = context.WithCancelCause(t.d.ctx)
	x.watch = t.d.control.Watch(x.cancel)
	return x
}

func (x *transfer) end() {
	x.watch.Stop()
	x.cancel(nil)
}

// run announces the transfer, opens the data connection, calls work with the connection and ends
// the connection. If the transfer was stopped meanwhile, the error says why.
func (x *transfer) run(announcement string, work func(*dataConn) error) error {
	channel, tlsConfig := x.of.ports.take()
	defer channel.close()
	x.of.d.reply(150, "%s", announcement)
	c, err := openData(x.ctx, channel, x.of.d.dataTimeout, tlsConfig)
	if err == nil {
		x.of.ports.count(c)
		x.opened(c)
		unhook := context.AfterFunc(x.ctx, c.Reset)
		if err = work(c); err != nil {
			c.Reset()
		} else {
			c.Finish()
		}
		unhook()
	}
	if cause := context.Cause(x.ctx); cause != nil {
		return cause
	}
	return err
}

// opened tells a Watched session that a transfer is about to move bytes. It does not tell of
// listings.
func (x *transfer) opened(c *dataConn) {
	if x.direction == "" {
		return
	}
	x.conn = c
	if x.direction == Downloaded {
		c.Measure()
	}
	if w, ok := x.of.tree.session.(Watched); ok {
		x.ended = w.Begun(Transfer{Direction: x.direction, Path: x.path, Acknowledged: c.Meter != nil}, c.Progress)
	}
}

// record calls Transferred for the transfer: now, or when the client has acknowledged the last byte
// or will not any more.
func (x *transfer) record(bytes int64, took time.Duration, err error) {
	c, session, followed := x.conn, x.of.tree.session, &x.of.followed
	done := Transfer{Direction: x.direction, Path: x.path, Bytes: bytes, Took: took, Err: err}
	tell := func() {
		session.Transferred(done)
		x.ended()
	}
	if c == nil || c.Meter == nil {
		tell()
		return
	}
	done.Acknowledged = true
	if err != nil {
		done.Bytes = min(bytes, c.Meter.Acked())
		tell()
		return
	}
	if followed.Add(1) > maxFollowed {
		followed.Add(-1)
		c.Close()
		done.Acknowledged = false
		tell()
		return
	}
	x.of.follower.Follow(c.Meter, x.begun, bytes, x.of.d.dataTimeout, func(r stream.Taken) {
		followed.Add(-1)
		c.Close()
		done.Bytes, done.Took = min(bytes, r.Acked), r.At.Sub(x.begun)
		if r.Lost {
			done.Err = errUnacknowledged
		}
		tell()
	})
}

// receive receives the data of an upload, and commits or aborts the upload. It returns how long the
// data took, without Commit.
func (x *transfer) receive(up Upload) (got int64, took time.Duration, err error) {
	cause := errors.New("the transfer crashed")
	defer func() {
		if cause != nil {
			up.Abort(cause)
		}
	}()
	start := time.Now()
	err = x.run("Receiving "+x.path, func(c *dataConn) (err error) {
		got, err = c.Receive(up)
		return err
	})
	took = time.Since(start)
	if err == nil {
		if _, proves := up.(SelfProving); !proves {
			x.watch.Linger(secondLook)
		}
		err = x.watch.Stop() // the watch ends before Commit
	}
	if cause = err; err == nil {
		err = up.Commit()
	}
	return got, took, err
}
