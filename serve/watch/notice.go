package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
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

// The elements of a feed (RFC 4287).
type (
	atomFeed struct {
		XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
		ID      string      `xml:"id"`
		Title   string      `xml:"title"`
		Updated string      `xml:"updated"`
		Author  atomAuthor  `xml:"author"`
		Links   []atomLink  `xml:"link"`
		Entries []atomEntry `xml:"entry"`
	}
	atomAuthor struct {
		Name string `xml:"name"`
	}
	atomLink struct {
		Rel   string `xml:"rel,attr"`
		Href  string `xml:"href,attr"`
		Title string `xml:"title,attr,omitempty"`
	}
	atomEntry struct {
		ID      string     `xml:"id"`
		Title   string     `xml:"title"`
		Updated string     `xml:"updated"`
		Links   []atomLink `xml:"link"`
		Summary string     `xml:"summary"`
	}
)

// FeedID returns the permanent ID of an account's feed or, if watch is not empty, of the feed of
// that watch. It does not depend on the feed's URL (RFC 4287, 4.2.6).
func FeedID(account, watch string) string {
	if watch != "" {
		return "urn:sheaf:" + watch
	}
	return "urn:sheaf:watches:" + url.PathEscape(account)
}

// WriteAtom writes notices, newest first, as an Atom feed. id is its FeedID and self its URL.
func WriteAtom(w io.Writer, id, self, title string, created time.Time, notices []*Notice) error {
	f := atomFeed{ID: id, Title: title, Updated: stamp(created), Author: atomAuthor{"Sheaf"}, Links: []atomLink{{Rel: "self", Href: self}}}
	if len(notices) > 0 {
		f.Updated = stamp(notices[0].Found)
	}
	for _, n := range notices {
		e := atomEntry{ID: "urn:sheaf:" + n.ID, Title: string(n.What) + ": " + n.name(), Updated: stamp(n.Found), Summary: n.summary()}
		if n.Page != "" {
			e.Links = append(e.Links, atomLink{Rel: "alternate", Href: n.Page})
		} else {
			e.Links = append(e.Links, atomLink{Rel: "alternate", Href: n.Stored})
		}
		if n.Diff != "" {
			e.Links = append(e.Links, atomLink{Rel: "related", Href: n.Diff, Title: "differences"})
		}
		e.Links = append(e.Links, atomLink{Rel: "via", Href: n.URL})
		f.Entries = append(f.Entries, e)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	out := xml.NewEncoder(w)
	out.Indent("", " ")
	return out.Encode(f)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (n *Notice) summary() string {
	s := "Visited " + stamp(n.At)
	if !n.Before.IsZero() {
		s += ", before that " + stamp(n.Before)
	}
	return s + "."
}
