package crawl

import (
	"net/netip"

	"sheaf/archive"
	"sheaf/robotd/batch"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/page"
	"sheaf/robotd/polite"
)

// turn is one page of a run at an address, on its way through the stages.
type turn struct {
	addr netip.Addr
	name string
	host *Host // nil: dropped meanwhile
	out  polite.Outcome
	turnPage

	failed bool // for an error of this machine, such as a full disk

	slot   *slot         // of the run
	run    fetch.Session // over which further pages may come; nil: none
	stored chan struct{} // closed when the page is stored and the run may go on; nil: the turn ends the run
	watch  *watch
}

// turnPage is what the stages gather about the page of a turn.
type turnPage struct {
	fetched    bool // there is an answer or an error to store
	entry      frontier.Entry
	past       frontier.Visit // of an earlier cycle
	known      frontier.Visit // past, or zero if a full copy is wanted
	resp       *fetch.Response
	err        error
	links      []link           // to hosts of the crawl
	resting    []frontier.Entry // of a short crawl: links to assigned hosts that are not in it
	found      []foreign        // links to hosts outside the assignment
	foundHosts map[string]bool  // of found
	others     []frontier.Entry // links to URLs of other robots' shares
	outlinks   []archive.Link   // all links, as the archive keeps them
	noArchive  bool
	noIndex    bool

	preferences string // see archive.Record

	mark  page.Mark           // what the answer is instead of a page
	cuts  []batch.Uncollected // links that are not followed
	rules *rules              // the robots.txt that allowed the page
}

// link is a URL to be queued, and its host.
type link struct {
	host *Host
	frontier.Entry
}

// cut counts n links to a host that are not followed, and why. url is one of the links, or the page
// on which they stand.
func (t *turn) cut(host, reason, url string, n int) {
	for i := range t.cuts {
		if e := &t.cuts[i]; e.Host == host && e.Reason == reason {
			e.N += int64(n)
			return
		}
	}
	t.cuts = append(t.cuts, batch.Uncollected{Kind: batch.KindCut, Reason: reason, Host: host, N: int64(n), URL: url})
}

// foreign is a link to a host outside the assignment.
type foreign struct {
	host, top string
	page      string // "" if the link is to the top page, or no robot would follow it
}
