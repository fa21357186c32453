package receive

import "time"

// Deleting an upload costs its robot only time: the robot still has the batch, asks how much of it
// is kept, and starts afresh.

// expire deletes uploads that have not grown since the given time.
func (us *uploads) expire(before time.Time) {
	for us.deleteOldest(before, "") {
	}
}

// makeRoom deletes the upload that has not grown for the longest time, if that time is longer than
// yieldAfter. So abandoned uploads cannot fill the disk. It spares the upload named except, and
// returns false if there is nothing to delete.
func (us *uploads) makeRoom(except string) bool {
	return us.deleteOldest(time.Now().Add(-us.yieldAfter), except)
}

// deleteOldest deletes the upload that has not grown for the longest time. It spares uploads that
// have grown since before, are being written, or are named except. It returns false if there is
// nothing to delete.
func (us *uploads) deleteOldest(before time.Time, except string) bool {
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
	if oldest.gone() || oldest.writer != nil {
		return true // it was continued or deleted meanwhile, so look again
	}
	us.log.Warn("an upload that nobody continues is deleted", "upload", oldest.name, "bytes", oldest.status.Offset, "since", touched)
	if err := us.remove(oldest); err != nil {
		us.log.Error("an upload cannot be deleted; the next start does", "upload", oldest.name, "err", err)
	}
	return true
}
