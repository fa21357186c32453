package receive

import (
	"time"
)

// An upload that is cleared away costs its robot time and nothing else: the robot
// has the batch, asks how much is kept, and begins anew.

// expire clears away uploads that nobody has gone on with since a time.
func (us *uploads) expire(before time.Time) {
	for us.drop(before, "") {
	}
}

// makeWay clears the upload away that has stood still for longest, if for long
// enough, so that beginnings that nobody goes on with cannot fill the disk for
// ever. It reports whether there was one; an upload named except is spared.
func (us *uploads) makeWay(except string) bool {
	return us.drop(time.Now().Add(-us.yield), except)
}

// drop clears the upload away that was touched first, if that was before a time
// and nobody is writing it.
func (us *uploads) drop(before time.Time, except string) bool {
	var oldest *upload
	touched := before
	for _, u := range us.all() {
		u.mu.Lock()
		if u.writer == nil && u.status.Touched.Before(touched) && u.name != except {
			oldest, touched = u, u.status.Touched
		}
		u.mu.Unlock()
	}
	if oldest == nil {
		return false
	}
	oldest.mu.Lock()
	defer oldest.mu.Unlock()
	if known, err := us.get(oldest.name); err != nil || known != oldest || oldest.writer != nil {
		return true // somebody was quicker; look again
	}
	us.log.Warn("an upload that nobody goes on with is cleared away", "upload", oldest.name, "bytes", oldest.status.Offset, "since", touched)
	if err := us.forget(oldest); err != nil {
		us.log.Error("an upload cannot be cleared away; the next start does", "upload", oldest.name, "err", err)
	}
	return true
}
