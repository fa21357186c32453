package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"time"

	"sheaf/archive"
	"sheaf/internal/db"
	"sheaf/serve/records"
	"sheaf/serve/replay"
)

// What a visit has found of a page.
type What string

const (
	PageNew     What = "new"     // no version of it was known
	PageChanged What = "changed" // its bytes are others
	PageGone    What = "gone"    // its server says so (404, 410)
	PageBack    What = "back"    // it was gone
)

// Notice is what a watch has found, once.
type Notice struct {
	ID      string    `json:"id"`
	Watch   string    `json:"watch"`
	Account string    `json:"-"`
	What    What      `json:"what"`
	URL     string    `json:"url"`
	Title   string    `json:"title,omitempty"`  // the page's own, where it has one
	At      time.Time `json:"at"`               // of the visit
	Before  time.Time `json:"before,omitzero"`  // of the version before
	Edition string    `json:"edition"`          // that brought it
	Found   time.Time `json:"found"`            // when the service noticed
	Page    string    `json:"page,omitempty"`   // link to the page as it was at the visit
	Diff    string    `json:"diff,omitempty"`   // link to what is different from before
	Stored  string    `json:"stored,omitempty"` // link to all versions
}

// name is what the notice's page is called where people read.
func (n *Notice) name() string {
	if n.Title != "" {
		return n.Title
	}
	return n.URL
}

// titleWithin is how many bytes of a page are read for its title.
const titleWithin = 64 << 10

// titleOf reads a page's title, whatever its encoding; empty where it has none, or cannot be read: a notice does not wait for it.
func titleOf(ctx context.Context, cell *archive.Cell, captures []*records.Capture) string {
	i := slices.IndexFunc(captures, func(c *records.Capture) bool {
		return c.URL == cell.URL && c.Time.Equal(cell.Time) && c.Kind == archive.Page
	})
	if i < 0 {
		return ""
	}
	answer, err := captures[i].Response(ctx)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	content, err := replay.Read(io.LimitReader(answer.Body, titleWithin), answer.Get("Content-Type"))
	if err != nil || answer.Check() != nil {
		return ""
	}
	return oneLine(content.Title)
}

// link fills the links in.
func (n *Notice) link(base string) {
	n.Stored = base + "/web/*/" + n.URL
	if n.What != PageGone {
		n.Page = base + replay.Path(n.At, "", n.URL)
	}
	if n.What == PageChanged || n.What == PageBack {
		n.Diff = base + "/diff/" + replay.Timestamp(n.Before) + "/" + replay.Timestamp(n.At) + "/" + n.URL
	}
}

func noticeID(watch, url string, at time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", watch, url, at.UnixNano()))
	return "n" + hex.EncodeToString(sum[:12])
}

// judge says what a record of a page that is watched tells, from all that is known
// of the page up to then: captures of its URL key, by time. Most records tell nothing.
func judge(cell *archive.Cell, captures []*records.Capture) (what What, before time.Time, tells bool) {
	var last *archive.Cell // the page before, as it was last in full
	var seen time.Time     // when it was seen last
	gone := false
	for _, c := range captures {
		if c.URL != cell.URL || !c.Time.Before(cell.Time) {
			continue
		}
		switch {
		case c.Kind == archive.Page:
			last, seen, gone = c.Cell, c.Time, false
		case c.Kind == archive.Revisit && c.Original != nil:
			last, seen, gone = c.Original.Cell, c.Time, false
		case isGone(c.Cell):
			gone = true
		}
	}
	switch {
	case cell.Kind == archive.Page && last == nil:
		return PageNew, time.Time{}, true
	case cell.Kind == archive.Page && gone:
		return PageBack, seen, true
	case cell.Kind == archive.Page:
		return PageChanged, seen, last.Digest != cell.Digest
	case isGone(cell):
		return PageGone, seen, last != nil && !gone
	}
	return "", time.Time{}, false
}

func isGone(c *archive.Cell) bool {
	return c.Kind == archive.Response && (c.Status == 404 || c.Status == 410)
}

const noticeColumns = `id, watch, account, what, url, title, at, before, edition, found`

// Notices gives the latest of an account's notices, newest first; of one watch where that is named.
func (s *Watches) Notices(ctx context.Context, account, watch string, limit int) ([]*Notice, error) {
	where, args := `account = ?`, []any{account}
	if watch != "" {
		where, args = where+` AND watch = ?`, append(args, watch)
	}
	rows, err := s.opt.DB.QueryContext(ctx, `SELECT `+noticeColumns+` FROM watch_notices WHERE `+where+` ORDER BY found DESC, id LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []*Notice{}
	for rows.Next() {
		n, err := s.scanNotice(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

func (s *Watches) scanNotice(r scanner) (*Notice, error) {
	var n Notice
	var at, before, found int64
	if err := r.Scan(&n.ID, &n.Watch, &n.Account, &n.What, &n.URL, &n.Title, &at, &before, &n.Edition, &found); err != nil {
		return nil, err
	}
	n.At, n.Found = db.Time(at), db.Time(found)
	if before != 0 {
		n.Before = db.Time(before)
	}
	n.link(s.opt.Base)
	return &n, nil
}
