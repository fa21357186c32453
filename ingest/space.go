package ingest

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Room is the size of a file system, as far as ordinary users can fill it, and how much of
// it they can still write: what is kept for root belongs to neither, as df has it.
// Files is zero where it can hold any number.
type Room struct {
	Bytes, Free      int64
	Files, FreeFiles int64
}

// Space tells how much room there is now.
type Space func() (Room, error)

// DiskSpace asks the file system that holds dir.
func DiskSpace(dir string) Space {
	return func() (Room, error) {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return Room{}, fmt.Errorf("statfs %s: %w", dir, err)
		}
		return Room{
			Bytes: int64(st.Blocks-st.Bfree+st.Bavail) * st.Bsize, Free: int64(st.Bavail) * st.Bsize,
			Files: int64(st.Files), FreeFiles: int64(st.Ffree),
		}, nil
	}
}

// Disks gives the file systems that hold the buffers and a local store: one, where
// both lie on the same. An empty store is one that lies elsewhere, such as S3.
func Disks(buffers, store string) ([]Disk, error) {
	first := Disk{Name: "the disk of the buffers", Space: DiskSpace(buffers), Buffers: true}
	if store == "" {
		return []Disk{first}, nil
	}
	var a, b unix.Stat_t
	if err := unix.Stat(buffers, &a); err != nil {
		return nil, fmt.Errorf("stat %s: %w", buffers, err)
	}
	if err := unix.Stat(store, &b); err != nil {
		return nil, fmt.Errorf("stat %s: %w", store, err)
	}
	if a.Dev == b.Dev {
		return []Disk{{Name: "the disk of buffers and store", Space: first.Space, Buffers: true, Store: true}}, nil
	}
	return []Disk{first, {Name: "the disk of the store", Space: DiskSpace(store), Store: true}}, nil
}

// NoSpace gives an error of a disk that was full after all, or of a quota, as
// *Full, for others write to the disk as well; any other error stays as it is.
func (g *Guard) NoSpace(err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	return &Full{Draining: true, RetryAfter: g.Later(), Detail: "the disk is full; what has come is kept, go on later"}
}

// Unsplit is how many bytes of batches have come whole and are not in the store yet.
func (i *Ingest) Unsplit(ctx context.Context) (int64, error) {
	n, err := i.ledger.unsplit(ctx)
	if err != nil {
		return 0, fmt.Errorf("ledger: %w", err)
	}
	return n, nil
}

// unsplit sums up by the index of states: it is asked for every upload, and the
// rows of all batches that ever came stay.
func (l *ledger) unsplit(ctx context.Context) (bytes int64, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT coalesce(sum(size), 0) FROM ingest_batches WHERE state IN ('received', 'pre-split')`).Scan(&bytes)
	return bytes, err
}
