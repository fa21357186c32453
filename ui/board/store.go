package board

import (
	"net/http"
	"slices"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/ingest/inbox"
	"sheaf/internal/audit"
	"sheaf/internal/webpage"
)

// storePage shows the editions, when the next is due, and how full the disks are.
type storePage struct {
	page
	Next     string // when the next edition appears
	Catalog  int64  // version
	Records  int64  // published, of all editions
	Stored   int64
	Where    string        // the object store
	Copy     string        // its second copy; empty: there is none
	Scrub    *upkeep.Scrub // nil: nobody verifies it
	Read     float64       // per cent, in the round under way
	Disks    []disk
	Editions []catalog.Edition // the newest first
	Pager    pager
}

// disk is a file system that batches pass through.
type disk struct {
	Name  string
	Room  inbox.Room
	Full  float64 // per cent
	Wrong bool
	Err   string // why its room is not known
}

// fullAt is how full a disk is, in per cent, when the board says that this is wrong, as the alert
// SheafDiskNearlyFull does: uploads stop at 85 % if nothing else is set.
const fullAt = 80

var storeTemplate = parse("store")

func (b *board) store(w http.ResponseWriter, r *http.Request) error {
	p := storePage{page: b.page(r), Where: b.Where, Copy: b.Copy}
	if b.Scrub != nil {
		s, err := b.Scrub(r.Context())
		if err != nil {
			return err
		}
		p.Scrub, p.Read = &s, 100*s.Ratio()
	}
	p.Next, p.Disks = b.nextPublication(p.Page), b.disks(p.Page)
	all, err := b.Library.Tree.Editions(r.Context())
	if err != nil {
		return err
	}
	if p.Catalog, err = b.Library.Tree.Version(r.Context()); err != nil {
		return err
	}
	for _, e := range all {
		p.Records += e.Records
		p.Stored += e.Bytes
	}
	slices.Reverse(all)
	p.Editions, p.Pager = paged(r, all)
	return webpage.Show(w, r, http.StatusOK, storeTemplate, p)
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

// copyLate is how old the second copy may get before the board says that this is wrong.
const copyLate = 24 * time.Hour

// disks looks at the disks.
func (b *board) disks(p webpage.Page) (all []disk) {
	for _, one := range b.Disks {
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

// publish publishes now, also outside the window.
func (b *board) publish(w http.ResponseWriter, r *http.Request) error {
	b.Log.WarnContext(r.Context(), "operator publishes now", "by", by(r), "remote", r.RemoteAddr, "window", b.Publish)
	v, _, err := b.Ingest.Publisher.Now(r.Context())
	if err != nil {
		return err
	}
	audit.Note(r.Context(), audit.Row{Object: "edition " + v.Edition})
	return back(w, Path)
}
