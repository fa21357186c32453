package ftp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Errors with which a Watch ends a transfer.
var (
	ErrAborted = errors.New("aborted by the client")
	ErrLost    = errors.New("control connection lost")

	errLineTooLong = errors.New("command line too long")
)

// longAgo is a deadline that ends a read at once.
var longAgo = time.Unix(1, 0)

// Watch reads the control connection while a transfer runs. Only the control connection shows that
// a client was killed: the data connection of an upload ends with the same FIN in both cases.
type Watch struct {
	conn  *controlConn
	ended chan struct{} // closed when err is final
	quit  chan struct{} // closed by Stop
	once  sync.Once     // for quit
	err   error
}

// Watch begins to watch. It calls alarm once if the transfer must end, with an error that is
// ErrAborted or ErrLost. Stop must be called before the next Read.
func (c *controlConn) Watch(alarm func(error)) *Watch {
	w := &Watch{conn: c, ended: make(chan struct{}), quit: make(chan struct{})}
	c.Conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(w.ended)
		if w.err = w.run(); w.err != nil {
			alarm(w.err)
		}
	}()
	return w
}

func (w *Watch) run() error {
	c := w.conn
	for {
		switch {
		case hasABOR(c.pending):
			return ErrAborted
		case errors.Is(c.readErr, os.ErrDeadlineExceeded): // by Stop
			c.readErr = nil
			<-w.quit
			return w.lastLook()
		case c.readErr != nil:
			return fmt.Errorf("%w: %w", ErrLost, c.readErr)
		case len(c.pending) >= MaxLine:
			return fmt.Errorf("%w: %w", ErrAborted, errLineTooLong)
		}
		select {
		case <-w.quit:
			return w.lastLook()
		default:
		}
		c.fill()
	}
}

// lastLook reads what had arrived when the watch was stopped. It may contain an ABOR that the
// client sent before it closed its data connection.
func (w *Watch) lastLook() error {
	const patience = 100 * time.Millisecond
	c := w.conn
	for len(c.pending) < MaxLine && c.readErr == nil && unread(c.tcp) {
		c.Conn.SetReadDeadline(time.Now().Add(patience))
		c.fill()
	}
	if errors.Is(c.readErr, os.ErrDeadlineExceeded) { // only a part of a TLS record has arrived
		c.readErr = nil
	}
	switch {
	case hasABOR(c.pending):
		return ErrAborted
	case c.readErr != nil:
		return fmt.Errorf("%w: %w", ErrLost, c.readErr)
	}
	return nil
}

// hasABOR reports whether a whole line in b is an ABOR.
func hasABOR(b []byte) bool {
	for line := range bytes.Lines(b) {
		if bytes.HasSuffix(line, []byte("\n")) && bytes.EqualFold(bytes.TrimSpace(line), []byte("ABOR")) {
			return true
		}
	}
	return false
}

// Linger waits for the watch to end by itself, but no longer than d.
func (w *Watch) Linger(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.ended:
	case <-t.C:
	}
}

// Stop ends the watch. It returns the error that the watch passed to alarm, or nil. It may be
// called again.
func (w *Watch) Stop() error {
	w.once.Do(func() {
		w.conn.Conn.SetReadDeadline(longAgo)
		close(w.quit)
	})
	<-w.ended
	return w.err
}

// urgentInLine makes the kernel leave urgent data in the stream. Clients send an ABOR as urgent
// data, with Telnet's IP and Synch before it (RFC 959, section 4.1.3). By default the kernel takes
// the last byte of urgent data out of the stream, which may be the ABOR's line end.
func urgentInLine(c *net.TCPConn) error {
	var failed error
	err := rawControl(c, func(fd int) { failed = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) })
	return errors.Join(err, failed)
}

// unread reports whether c, below TLS, has received bytes that nobody has read.
func unread(c *net.TCPConn) bool {
	n := 0
	if c != nil {
		rawControl(c, func(fd int) { n, _, _ = unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT) })
	}
	return n > 0
}

func rawControl(c *net.TCPConn, f func(fd int)) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}
