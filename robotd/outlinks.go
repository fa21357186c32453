package robotd

import (
	"strings"

	"sheaf/archive"
	"sheaf/robotd/extract"
)

// notRecorded is why links are missing from the archive's links; they are followed all the same.
const notRecorded = "not_recorded"

// refer notes where a page leads, for the archive's links: all of it, whatever of it is
// followed. Links beyond the setting's bound are left out, the page's last ones, and counted.
func (c *crawl) refer(t *turn, links ...extract.Link) {
	if !c.cfg.Links.Record {
		return
	}
	for i, l := range links {
		if len(t.outlinks) >= c.cfg.Links.Max {
			t.loseMany(t.name, notRecorded, t.entry.URL, len(links)-i)
			return
		}
		kind := strings.ToLower(l.Tag)
		if l.NoFollow {
			kind += " nofollow"
		}
		t.outlinks = append(t.outlinks, archive.Link{URL: l.URL, Kind: kind})
	}
}

// linksOf gives the links that are stored with a record: of a page in full, and of a redirect.
// A page that is something else than it says (package verdict) tells nothing of the site.
func (t *turn) linksOf(rec *archive.Record) []archive.Link {
	if rec.Kind == archive.Page || rec.Kind == archive.Response && t.resp.Status/100 == 3 {
		return t.outlinks
	}
	return nil
}
