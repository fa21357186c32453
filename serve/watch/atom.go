package watch

import (
	"encoding/xml"
	"io"
	"net/url"
	"time"
)

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
