package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"sheaf/archive"
	"sheaf/internal/mailer"
	"sheaf/serve/records"
	"sheaf/serve/replay"
)

// What is the kind of change that a visit has found.
type What string

const (
	PageNew     What = "new"     // no version was known
	PageChanged What = "changed" // its bytes are different
	PageGone    What = "gone"    // its server says so (404, 410)
	PageBack    What = "back"    // it was gone
)

// Notice is one change that concerns a watch.
type Notice struct {
	ID      string    `json:"id"`
	Watch   string    `json:"watch"`
	Account string    `json:"-"`
	What    What      `json:"what"`
	URL     string    `json:"url"`
	Title   string    `json:"title,omitempty"`  // the page's own, if it has one
	At      time.Time `json:"at"`               // of the visit
	Before  time.Time `json:"before,omitzero"`  // of the version before
	Edition string    `json:"edition"`          // that has the new version
	Found   time.Time `json:"found"`            // when the service noticed
	Page    string    `json:"page,omitempty"`   // link to the page as it was at the visit
	Diff    string    `json:"diff,omitempty"`   // link to the differences from the version before
	Stored  string    `json:"stored,omitempty"` // link to all stored versions
}

// name returns the page's title or, if it has none, its URL.
func (n *Notice) name() string {
	if n.Title != "" {
		return n.Title
	}
	return n.URL
}

// titleWithin is how much of a page is read for its title, in bytes.
const titleWithin = 64 << 10

// TitleOf returns the title of the page in the capture of url at a time. It is empty if the page
// has none or cannot be read.
func TitleOf(ctx context.Context, url string, at time.Time, captures []*records.Capture) string {
	i := slices.IndexFunc(captures, func(c *records.Capture) bool {
		return c.URL == url && c.Time.Equal(at) && c.Kind == archive.Page
	})
	if i < 0 {
		return ""
	}
	answer, err := captures[i].Response(ctx)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	content, err := replay.Read(io.LimitReader(answer.Body, titleWithin), answer.ContentType())
	if err != nil || answer.Check() != nil {
		return ""
	}
	return mailer.OneLine(content.Title)
}

// link sets the notice's links. base is the service's URL.
func (n *Notice) link(base string) {
	n.Stored = base + replay.VersionsPath(n.URL)
	if n.What != PageGone {
		n.Page = base + replay.Path(n.At, "", n.URL)
	}
	if n.What == PageChanged || n.What == PageBack {
		n.Diff = base + replay.DiffPath(n.Before, n.At, n.URL)
	}
}

func noticeID(watch, url string, at time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", watch, url, at.UnixNano()))
	return "n" + hex.EncodeToString(sum[:12])
}

// judge says which change a record of a watched page shows, if any. captures are the records of its
// URL key by time. before is the time of the version before. Most records show no change.
func judge(cell *archive.Cell, captures []*records.Capture) (what What, before time.Time, changed bool) {
	var last *archive.Cell // the latest full record of the page before cell
	var seen time.Time     // when last or a revisit of it was fetched
	gone := false
	for _, c := range captures {
		if c.URL != cell.URL || !c.Time.Before(cell.Time) {
			continue
		}
		switch {
		case c.Kind == archive.Page:
			last, seen, gone = c.Cell, c.Time, false
		case isGone(c.Cell) || c.Original != nil && isGone(c.Original.Cell):
			gone = true
		case c.Original != nil && c.Original.Kind == archive.Page:
			last, seen, gone = c.Original.Cell, c.Time, false
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

// isGone reports whether a record, or a revisit's own head, says that the page is gone.
func isGone(c *archive.Cell) bool {
	return c.Kind != archive.Page && (c.Status == http.StatusNotFound || c.Status == http.StatusGone)
}
