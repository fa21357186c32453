package receive

import (
	"fmt"
	"os"
	"time"
)

// resume takes the upload over and goes on writing at the very end of what is kept. A
// connection whose robot has long begun another may come as late as it likes: what
// was told of the upload since is not undone by it.
func (u *upload) resume(at int64) (*writer, error) { return u.takeOver(at, true) }

// begin takes the upload over and goes on writing at an offset no further than
// what is kept; what was kept beyond it is given up.
func (u *upload) begin(at int64) (*writer, error) { return u.takeOver(at, false) }

func (u *upload) takeOver(at int64, atEnd bool) (*writer, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.settle(); err != nil {
		return nil, err
	}
	switch known, err := u.uploads.get(u.name); {
	case err != nil || known != u:
		return nil, errNoUpload // accepted or given up meanwhile
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

// writer appends to an upload until it is closed or another takes over.
type writer struct {
	u  *upload
	f  *os.File
	at int64 // written up to here

	since time.Time // when the window began in which the pace is measured
	from  int64     // at, then
}

// pace is how slow a sender may be: bytes a second, on an average of the window.
// Who brings next to nothing holds a connection, and its share of them, for as good
// as nothing; one that brings nothing at all the protocols let go by themselves.
type pace struct {
	least  int64
	window time.Duration
}

// keepsUp fails with errTooSlow where the sender is too slow, which it asks once in a window.
func (w *writer) keepsUp() error {
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

// Write appends p, and makes a promise now and then; of an upload of undeclared
// size it then asks for room for the next stretch.
func (w *writer) Write(p []byte) (int, error) {
	w.u.mu.Lock()
	defer w.u.mu.Unlock()
	if w.u.writer != w {
		return 0, errTakenOver
	}
	n, err := w.f.WriteAt(p, w.at)
	w.at += int64(n)
	if err == nil {
		err = w.keepsUp()
	}
	if err == nil && w.at-w.u.status.Offset >= checkpoint {
		if err = w.promise(); err == nil {
			err = w.u.uploads.guard.Extend(w.u.name, w.u.next())
		}
	}
	return n, err
}

// Close makes all that was written durable and lets the upload go.
func (w *writer) Close() error {
	w.u.mu.Lock()
	defer w.u.mu.Unlock()
	if w.u.writer != w {
		return errTakenOver
	}
	return w.u.settle()
}

// promise makes what was written durable and then counts it; u.mu is held.
func (w *writer) promise() error {
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
		w.u.status.Offset = before // a full disk may hold the bytes and not that they count
		return err
	}
	us.guard.Hold(w.u.name, w.u.claim())
	return nil
}
