package foreign

import (
	"bytes"
	"io"
	"net/http"

	"sheaf/archive"
	"sheaf/internal/media"
	pages "sheaf/internal/page"
	"sheaf/internal/preference"
	"sheaf/internal/weburl"
)

// links adds a page's links, or a redirect's target, to r. It finds links as robots do. If the
// page's body cannot be read, the error comes again when the record is stored.
func (c *conversion) links(r *archive.Record) {
	header := make(http.Header)
	head := parseHead(r.HTTP)
	for _, f := range head.fields {
		header.Add(f[0], f[1])
	}
	status, _, _ := statusLine(head.first) // 0 without one
	var found []pages.Link
	switch contentType := media.ContentType(header); {
	case r.Kind == archive.Response && status/100 == 3 && header.Get("Location") != "":
		if to, err := weburl.Parse(r.URL, header.Get("Location"), nil); err == nil {
			found = []pages.Link{{URL: to, Tag: "redirect"}}
		}
	case r.Kind == archive.Page && r.Body != nil:
		found = pages.HeaderLinks(header, r.URL)
		if start, _ := c.head.Peek(preference.Searched); !pages.Searches(start, contentType) {
			break
		}
		c.searched.Reset()
		_, _ = io.CopyN(&c.searched, r.Body, pages.MaxBytes+1) // one more shows that there is more
		r.Body = io.MultiReader(bytes.NewReader(c.searched.Bytes()), r.Body)
		if p, err := pages.LinksAndText(c.searched.Bytes(), contentType, r.URL, 0); err == nil {
			found = append(found, p.Links...)
		}
	}
	for _, l := range found[:min(len(found), pages.MaxRecorded)] {
		r.Links = append(r.Links, archive.Link{URL: l.URL, Kind: l.Kind(), Rel: l.Rel, Anchor: l.Anchor})
	}
}
