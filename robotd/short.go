package robotd

import (
	"context"

	"sheaf/robotd/diskguard"
)

// openRoom makes the guard of disk and spool, which looks at once.
func (r *Robot) openRoom() error {
	r.room = diskguard.NewGuard(diskguard.Options{
		Free: r.cfg.Disk.Free, Spool: r.cfg.Disk.Spool,
		Disk: diskguard.DiskOf(r.cfg.DataDir),
		Held: func() (diskguard.Held, error) {
			spool, open, err := r.batches.Held()
			return diskguard.Held{Open: open, Spool: spool}, err
		},
	})
	return r.room.Look()
}

func (r *Robot) lookForRoom(context.Context) error { return r.room.Look() }

// tolerate takes a disk that is full for a reason to wait: nothing is collected until there is room.
func (r *Robot) tolerate(err error) error {
	if !diskguard.IsFull(err) {
		return err
	}
	r.room.Full()
	r.log.Warn("the disk is full", "error", err)
	return nil
}
