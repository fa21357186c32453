package robotd

import (
	"context"
	"io"

	"sheaf/archive"
	"sheaf/robotd/batch"
	"sheaf/robotd/tap"
)

// openTap opens the socket for consumers on this machine.
func (r *Robot) openTap() error {
	// Every one begins with what a warc.gz of nothing is.
	empty, err := archive.NewView(archive.WARC, nil)
	if err != nil {
		return err
	}
	in, err := empty.OpenRange(context.Background(), 0, empty.Size())
	if err != nil {
		return err
	}
	defer in.Close()
	start, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	r.tap, err = tap.Listen(tap.Options{
		Path: r.cfg.Tap.Socket, Buffer: r.cfg.Tap.Buffer, Wait: r.cfg.Tap.Wait, Start: start, Log: r.log,
	})
	return err
}

// tapped reads what was stored, where somebody listens. A record that cannot be read is
// for the log: the page is stored, and that is what counts.
func (r *Robot) tapped(cell *batch.Cell) []byte {
	if r.tap == nil || !r.tap.Active() {
		return nil
	}
	record, err := cell.WARC(context.Background())
	if err != nil {
		r.log.Warn("tap: record not read", "url", cell.URL, "error", err)
		return nil
	}
	return record
}
