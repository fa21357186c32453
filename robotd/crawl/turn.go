package crawl

import (
	"context"
	"errors"
	"net/netip"
	"slices"

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

// cut counts n links to a host that are not followed, and why. One of them is, or stands on, the
// URL.
func (t *turn) cut(host, reason, url string, n int) {
	for i := range t.cuts {
		if e := &t.cuts[i]; e.Host == host && e.Reason == reason {
			e.N += int64(n)
			return
		}
	}
	t.cuts = append(t.cuts, batch.Uncollected{Kind: batch.KindCut, Reason: reason, Host: host, N: int64(n), URL: url})
}

// requests makes the requests of turns.
type requests struct {
	parts    *Parts
	watchdog *watchdog
}

// get fetches for a turn. If the lease is over, or ends before the answer is there, the error's
// kind is fetch.Over: the page stays the next one. A fetch that the watchdog cancelled has failed
// for want of progress. A fetch whose turn was taken off the worker is cancelled.
func (r *requests) get(ctx context.Context, t *turn, req fetch.Request) (resp *fetch.Response, err error) {
	req.Progress, req.Allowed = t.watch.progress, r.parts.Manners.Lease.MayVisit
	ctx, cancel := r.parts.Manners.Lease.Bound(ctx)
	defer cancel()
	if t.run != nil {
		resp, err = t.run.Get(ctx, req)
	} else {
		resp, err = r.parts.Source.Get(ctx, req)
	}
	if !r.watchdog.has(t.watch) {
		if resp != nil {
			err = errors.Join(err, resp.Close())
		}
		return nil, &fetch.Error{Kind: fetch.Canceled, URL: req.URL, Err: errors.Join(errStalled, err)}
	}
	if cause := context.Cause(ctx); fetch.KindOf(err) == fetch.Canceled {
		switch {
		case errors.Is(cause, errStalled):
			err = &fetch.Error{Kind: fetch.TooSlow, URL: req.URL, Err: errStalled}
		case errors.Is(cause, polite.ErrLeaseOver):
			err = &fetch.Error{Kind: fetch.Over, URL: req.URL, Err: cause}
		}
	}
	return resp, err
}

// mostDead is how many addresses of a host are tried before the host has failed.
const mostDead = 8

// elsewhere reports whether a fetch has failed because the host's address takes no connection,
// while the host has another one. The host then moves in its next turn, an interval later, and has
// not failed.
func (r *requests) elsewhere(ctx context.Context, t *turn, err error) bool {
	if fetch.KindOf(err) != fetch.Connect {
		return false
	}
	p := &t.host.place
	p.dead = append(p.dead, t.addr)
	to, err := r.parts.Fetcher.ResolveAgain(ctx, t.name, t.addr, p.dead...)
	if err != nil || len(p.dead) >= mostDead || slices.Contains(p.dead, to.Addr()) {
		p.dead = nil // one may answer again
		return false
	}
	p.silent, t.out.More = true, true
	return true
}

// foreign is a link to a host outside the assignment.
type foreign struct {
	host, top string
	page      string // "" if the link is to the top page, or no robot would follow it
}
