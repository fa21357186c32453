package api

import "time"

// Inlink is a link to a page, with the page that has the link.
type Inlink struct {
	Source   string    `json:"source"`  // URL of the page that has the link
	Time     time.Time `json:"time"`    // when that page was fetched
	Edition  string    `json:"edition"` // edition that has that page
	Target   string    `json:"target"`
	Kind     string    `json:"kind"`               // what refers: an element, css, sitemap, feed, header, redirect
	Rel      string    `json:"rel,omitempty"`      // words of the rel attribute
	Anchor   string    `json:"anchor,omitempty"`   // text of the link, or the text in place of its image
	NoFollow bool      `json:"nofollow,omitempty"` // the page asks not to follow the link
}

// InlinkList is the answer of PathInlinks. Next is the cursor for the next query, if there may be
// more links.
type InlinkList struct {
	Links []Inlink `json:"links"`
	Next  string   `json:"next,omitempty"`
}

// InlinkHost is a host that links to a site. Source and Target are an example of its links.
type InlinkHost struct {
	Host   string `json:"host"`
	Pages  int64  `json:"pages"` // number of its pages that link to the site
	Links  int64  `json:"links"` // on these pages
	Source string `json:"source,omitempty"`
	Target string `json:"target,omitempty"`
}

// InlinkHostList is the answer of PathInlinkHosts.
type InlinkHostList struct {
	Hosts []InlinkHost `json:"hosts"`
	Next  string       `json:"next,omitempty"`
}
