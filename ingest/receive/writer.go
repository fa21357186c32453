package receive

import (
	"fmt"
	"os"
	"time"
)

// resume takes the upload over and continues exactly at the end of what is kept. An old connection
// that comes late can so not undo what the robot has been told since on another.
func (u *upload) resume(at int64) (*writer, error) { return u.takeOver(at, true) }

// begin takes the upload over and continues at an offset no further than what is kept. What was
// kept beyond it is given up.
func (u *upload) begin(at int64) (*writer, error) { return u.takeOver(at, false) }

func (u *upload) takeOver(at int64, atEnd bool) (*writer, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.settle(); err != nil {
		return nil, err
	}
	switch {
	case u.gone(): // accepted or deleted meanwhile
		return nil, errNoUpload
	case at > u.status.Offset, atEnd && at != u.status.Offset:
		return nil, errOffset
	}
	if at < u.status.Offset {
		u.status.Offset = at
		if err := u.store(); err != nil {
			return nil, err
		}
	}
	if err := os.Truncate(u.path(), at); err != nil {
		return nil, err
	}
	if err := u.uploads.guard.Extend(u.name, u.next()); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(u.path(), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	u.writer = &writer{u: u, f: f, at: at, since: time.Now(), from: at}
	return u.writer, nil
}

// writer appends to an upload until it is closed or another takes the upload over.
type writer struct {
	u  *upload
	f  *os.File
	at int64 // written up to here

	since time.Time // when the window began in which the rate is measured
	from  int64     // at, then
}

// pace is the slowest rate allowed, in bytes a second on an average of the window. A sender that
// brings next to nothing would hold a connection for nothing. Those that bring nothing at all are
// disconnected by the protocols themselves.
type pace struct {
	least  int64
	window time.Duration
}

// checkPace fails with errTooSlow if the sender is too slow. It checks once in a window.
func (w *writer) checkPace() error {
	p, now := w.u.uploads.pace, time.Now()
	took, got := now.Sub(w.since), w.at-w.from
	if took < p.window {
		return nil
	}
	w.since, w.from = now, w.at
	if float64(got) < float64(p.least)*took.Seconds() {
		return fmt.Errorf("%w: %d bytes came in %v, and %d a second is the least; what came is kept, go on from there",
			errTooSlow, got, took.Round(time.Second), p.least)
	}
	return nil
}

// Write appends p. At every checkpoint it makes what was written durable, and reserves room for the
// next stretch if the upload's size was not declared.
func (w *writer) Write(p []byte) (int, error) {
	w.u.mu.Lock()
	defer w.u.mu.Unlock()
	if w.u.writer != w {
		return 0, errTakenOver
	}
	n, err := w.f.WriteAt(p, w.at)
	w.at += int64(n)
	if err == nil {
		err = w.checkPace()
	}
	if err == nil && w.at-w.u.status.Offset >= checkpoint {
		if err = w.commit(); err == nil {
			err = w.u.uploads.guard.Extend(w.u.name, w.u.next())
		}
	}
	return n, err
}

// Close makes all that was written durable and releases the upload.
func (w *writer) Close() error {
	w.u.mu.Lock()
	defer w.u.mu.Unlock()
	if w.u.writer != w {
		return errTakenOver
	}
	return w.u.settle()
}

// commit makes what was written durable and then counts it in the status. The caller holds u.mu.
func (w *writer) commit() error {
	if w.at == w.u.status.Offset {
		return nil
	}
	us := w.u.uploads
	if err := us.write(writeData, w.f.Sync); err != nil {
		return err
	}
	before := w.u.status.Offset
	w.u.status.Offset = w.at
	if err := us.write(writeOffset, w.u.store); err != nil {
		w.u.status.Offset = before // a full disk may have room for the bytes and not for the status
		return err
	}
	us.guard.Hold(w.u.name, w.u.claim())
	return nil
}
