package board

import (
	"net/http"
	"slices"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/internal/audit"
	"sheaf/internal/files"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
)

// storePage shows the editions, the time of the next one, and how full the disks are.
type storePage struct {
	page
	Next     string // when the next edition appears
	Catalog  int64  // version
	Records  int64  // published records of all editions
	Stored   int64
	Where    string        // place of the object store
	Copy     string        // place of its second copy; empty: there is none
	Scrub    *upkeep.Scrub // nil: nobody verifies it
	Read     float64       // part that the present round has read, in per cent
	Disks    []disk
	Editions []catalog.Edition // the newest first
	Pager    pager
}

// disk is a file system that batches pass through.
type disk struct {
	Name  string
	Room  files.Room
	Full  float64 // per cent
	Wrong bool
	Err   string // why its free space is not known
}

// fullAt is the fill level, in per cent, at which the board reports a disk as a failure. The
// alert SheafDiskNearlyFull has the same limit. By default uploads stop at 85 %.
const fullAt = 80

func (b *board) store(r *http.Request) (any, error) {
	p := storePage{page: b.page(r), Where: b.Where, Copy: b.Copy}
	if b.Scrub != nil {
		s, err := b.Scrub(r.Context())
		if err != nil {
			return nil, err
		}
		p.Scrub, p.Read = &s, 100*s.Ratio()
	}
	p.Next, p.Disks = b.nextPublication(p.Page), b.disks(p.Page)
	all, err := b.Library.Tree.Editions(r.Context())
	if err != nil {
		return nil, err
	}
	if p.Catalog, err = b.Library.Tree.Version(r.Context()); err != nil {
		return nil, err
	}
	for _, e := range all {
		p.Records += e.Records
		p.Stored += e.Bytes
	}
	slices.Reverse(all)
	p.Editions, p.Pager = paged(r, all)
	return p, nil
}

// nextPublication says when the next edition appears.
func (b *board) nextPublication(p webpage.Page) string {
	now := time.Now()
	if b.Publish.Open(now) {
		return p.T("as soon as batches are split")
	}
	if next, ok := b.Publish.Next(now); ok {
		return p.Clock(next)
	}
	return p.T("when an operator publishes")
}

// copyLate is how long the second copy may be behind before the board reports a failure.
const copyLate = 24 * time.Hour

// disks returns the disks with their fill levels.
func (b *board) disks(p webpage.Page) (all []disk) {
	if b.Ingest == nil {
		return nil
	}
	for _, one := range b.Ingest.Disks {
		d := disk{Name: p.T("disk of the buffers")}
		switch {
		case one.Buffers && one.Store:
			d.Name = p.T("disk of buffers and store")
		case one.Store:
			d.Name = p.T("disk of the store")
		}
		room, err := one.Space()
		if err != nil {
			d.Err, d.Wrong = err.Error(), true
		} else if d.Room = room; room.Bytes > 0 {
			d.Full = 100 * (1 - float64(room.Free)/float64(room.Bytes))
			d.Wrong = d.Full >= fullAt || room.Files > 0 && room.FreeFiles == 0
		}
		all = append(all, d)
	}
	return all
}

// publish publishes now, even outside the window.
func (b *board) publish(r *http.Request, _ route.None) (string, error) {
	b.Log.WarnContext(r.Context(), "operator publishes now", "by", by(r), "remote", r.RemoteAddr, "window", b.Publish)
	v, _, err := b.Ingest.Publisher.Now(r.Context())
	if err != nil {
		return "", err
	}
	audit.Note(r.Context(), audit.Row{Object: "edition " + v.Edition})
	return Path, nil
}
