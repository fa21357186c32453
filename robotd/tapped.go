package robotd

import (
	"context"
	"io"

	"sheaf/archive"
	"sheaf/internal/settings"
	"sheaf/robotd/batch"
	"sheaf/robotd/tap"
)

// openTap opens the socket for consumers on this machine. One that nobody asked for by name
// may fail: some network disks have no sockets.
func (r *Robot) openTap() error {
	path := r.cfg.TapSocket()
	if path == "" {
		return nil
	}
	err := r.listenTap(path)
	if err != nil && r.cfg.Tap.Socket == "" {
		r.log.Warn("nobody can read records as they are stored", "error", err)
		return nil
	}
	if err != nil {
		return settings.Wrong("tap.socket", path, err.Error())
	}
	return nil
}

func (r *Robot) listenTap(path string) error {
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
		Path: path, Buffer: r.cfg.Tap.Buffer, Wait: r.cfg.Tap.Wait, Start: start, Log: r.log,
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
