package ftp

import (
	"context"
	"errors"
	"time"

	"sheaf/internal/stream"
)

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
