package receive

import (
	"fmt"
	"os"
	"time"
)

// resume takes the upload over and continues exactly at the end of the kept bytes. So the late
// bytes of an old connection cannot overwrite what a newer one has been told.
func (u *upload) resume(at int64) (*writer, error) { return u.takeOver(at, true) }

// begin takes the upload over and continues at an offset within the kept bytes. It drops the bytes
// beyond the offset.
func (u *upload) begin(at int64) (*writer, error) { return u.takeOver(at, false) }

func (u *upload) takeOver(at int64, atEnd bool) (*writer, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.settle(); err != nil {
		return nil, err
	}
	switch {
	case u.gone(): // it was accepted or deleted meanwhile
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

// writer appends to an upload until it is closed or another writer takes the upload over.
type writer struct {
	u  *upload
	f  *os.File
	at int64 // offset up to which it has written

	since time.Time // beginning of the window in which the rate is measured
	from  int64     // at when the window began
}

// pace is the slowest rate allowed, in bytes a second on an average of the window. It keeps slow
// senders from holding connections. The protocols themselves disconnect senders that send nothing
// at all.
type pace struct {
	least  int64
	window time.Duration
}

// checkPace fails with errTooSlow if the sender is too slow. It checks once in each window.
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

// Write appends p. At every checkpoint it makes the written bytes durable. If the upload's size was
// not declared, it also reserves room up to the next checkpoint.
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

// Close makes all written bytes durable and releases the upload.
func (w *writer) Close() error {
	w.u.mu.Lock()
	defer w.u.mu.Unlock()
	if w.u.writer != w {
		return errTakenOver
	}
	return w.u.settle()
}

// commit makes the written bytes durable and then counts them in the status. The caller holds u.mu.
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
		w.u.status.Offset = before // a full disk may have had room for the bytes but not for the status
		return err
	}
	us.guard.Hold(w.u.name, w.u.claim())
	return nil
}
