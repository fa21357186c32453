package ftp

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

var (
	errAborted = errors.New("aborted by the client")
	errLost    = errors.New("control connection lost")

	longAgo = time.Unix(1, 0) // a deadline that ends a read at once
)

// watch follows the control connection while a transfer runs. Only it shows
// that a client was killed: the data connection of an upload ends with the same
// FIN either way.
type watch struct {
	conn *conn
	over chan struct{} // closed when watching has ended
	quit chan struct{} // closed to end it
	once sync.Once     // for quit
	why  error         // valid once over is closed: why the transfer must end, or nil
}

// watch begins to watch; alarm is called once if the transfer must end.
// The caller ends it with stop.
func (c *conn) watch(alarm func(why error)) *watch {
	w := &watch{conn: c, over: make(chan struct{}), quit: make(chan struct{})}
	c.Conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(w.over)
		if w.why = w.run(); w.why != nil {
			alarm(w.why)
		}
	}()
	return w
}

func (w *watch) run() error {
	c := w.conn
	for {
		switch {
		case hasABOR(c.pending):
			return errAborted
		case errors.Is(c.readErr, os.ErrDeadlineExceeded): // stop's doing
			c.readErr = nil
			<-w.quit
			return w.last()
		case c.readErr != nil:
			return fmt.Errorf("%w: %w", errLost, c.readErr)
		case len(c.pending) >= maxLine:
			return fmt.Errorf("%w: %w", errAborted, errLineTooLong)
		}
		select {
		case <-w.quit:
			return w.last()
		default:
		}
		c.fill()
	}
}

// last reads what had come when the watch was stopped: a client's ABOR may lie there,
// sent before it closed its data connection.
func (w *watch) last() error {
	c := w.conn
	for len(c.pending) < maxLine && c.readErr == nil && unread(c.tcp) {
		c.Conn.SetReadDeadline(time.Now().Add(lastLook))
		c.fill()
	}
	if errors.Is(c.readErr, os.ErrDeadlineExceeded) { // a part of a TLS record
		c.readErr = nil
	}
	switch {
	case hasABOR(c.pending):
		return errAborted
	case c.readErr != nil:
		return fmt.Errorf("%w: %w", errLost, c.readErr)
	}
	return nil
}

// lastLook bounds how long reading what has come may take.
const lastLook = 100 * time.Millisecond

// hasABOR reports whether one of the whole lines in b is an ABOR.
func hasABOR(b []byte) bool {
	for line := range bytes.Lines(b) {
		if bytes.HasSuffix(line, []byte("\n")) && bytes.EqualFold(bytes.TrimSpace(line), []byte("ABOR")) {
			return true
		}
	}
	return false
}

// linger gives bad news a moment to arrive.
func (w *watch) linger(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.over:
	case <-t.C:
	}
}

// stop ends the watch and gives its verdict; it may be called again.
func (w *watch) stop() error {
	w.once.Do(func() {
		w.conn.Conn.SetReadDeadline(longAgo)
		close(w.quit)
	})
	<-w.over
	return w.why
}
