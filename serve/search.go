package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/serve/account"
)

// Match says which records belong to a Target.
type Match int8

const (
	MatchExact  Match = iota + 1 // one URL key
	MatchPrefix                  // the URL keys of one site that begin with Key
	MatchHost                    // all of one site
	MatchDomain                  // a host and all below it, on every port
	MatchAll                     // everything
)

// Target is what a search goes through. A site is a host with its namesakes, with
// and without www: their URLs have the same keys.
type Target struct {
	Match Match
	Host  string // as archive.HostOf gives it; of MatchDomain a name; empty of MatchAll
	Key   string // MatchExact: the URL key; MatchPrefix: what it begins with
}

// Position is a record's place in the order of a search. It depends on nothing
// else that is asked for, and stays what it is whatever is published.
type Position struct {
	Target int       // its number
	Host   string    // catalog.Key of the host; empty where the target is one site
	Key    string    // URL key
	Time   time.Time // of the fetch
	Seq    int64     // of the line
	Offset int64     // of the cell in its segment
}

// compare orders positions of the same target and, unless it is one site, host.
func (p Position) compare(q Position) int {
	return cmp.Or(strings.Compare(p.Key, q.Key), p.Time.Compare(q.Time), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Offset, q.Offset))
}

// Before reports whether one position of a target lies before another of the same.
func (p Position) Before(q Position) bool { return p.compare(q) < 0 }

// Search says which records are wanted. Targets come one after another; sites by
// the key of their URLs, then by time; domains host by host in the order of the
// tree (catalog.Key), each by URL key and time.
type Search struct {
	Targets  []Target
	From, To time.Time // of the fetch, both inclusive; zero: open
	After    *Position // go on behind it; nil: from the beginning
	Until    *Position // end before it, which goes on forwards only; nil: at the end
	Reverse  bool      // sites from their last record to their first

	// Pace, where it is set, is told from time to time how far the search has come:
	// behind the position everything is still to be searched. An error that it
	// returns ends the search. It bounds what an answer may cost.
	Pace func(done Position, scanned int64) error
}

// endKey lies behind all URL keys of a host.
const endKey = "\x7f"

// errPast ends a search that has come to where it is to end.
var errPast = errors.New("all that is wanted has been searched")

// stride is how many records are looked at between calls of Pace.
const stride = 1024

// Results of a search read one version of the catalog. It must be closed.
type Results struct {
	*visit
	search  Search
	scanned int64

	// The hosts of the site last searched: a long list has many pages of one, which follow each other.
	lastSite  string
	lastHosts []*host
}

// Search looks for records as the account sees them.
func (l *Library) Search(ctx context.Context, a *account.Account, s Search) (*Results, error) {
	v, err := l.visit(ctx, a)
	if err != nil {
		return nil, err
	}
	return &Results{visit: v, search: s}, nil
}

// Version is that of the catalog.
func (r *Results) Version() int64 { return r.snap.Version() }

// Scanned is how many records were looked at.
func (r *Results) Scanned() int64 { return r.scanned }

// Close gives the catalog's version free.
func (r *Results) Close() { r.snap.Release() }

// Each calls f with each record and its position, until one fails.
func (r *Results) Each(ctx context.Context, f func(*Capture, Position) error) error {
	first := 0
	if r.search.After != nil {
		first = r.search.After.Target
	}
	for n := first; n < len(r.search.Targets); n++ {
		after := r.search.After
		if after != nil && after.Target != n {
			after = nil
		}
		if err := r.target(ctx, n, after, f); err != nil {
			if r.search.Until != nil && errors.Is(err, errPast) {
				return nil
			}
			return err
		}
		if n+1 < len(r.search.Targets) {
			if err := r.pace(Position{Target: n + 1}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Results) target(ctx context.Context, n int, after *Position, f func(*Capture, Position) error) error {
	t := r.search.Targets[n]
	at := Position{Target: n}
	switch t.Match {
	case MatchExact, MatchPrefix, MatchHost:
		if t.Host != r.lastSite {
			hosts, err := r.site(ctx, t.Host)
			if err != nil {
				return fmt.Errorf("search %s: %w", t.Host, err)
			}
			r.lastSite, r.lastHosts = t.Host, hosts
		}
		return r.stream(ctx, r.lastHosts, t.keys(), at, after, f)
	case MatchDomain:
		return r.walk(ctx, archive.HostPath(t.Host), at, after, f)
	case MatchAll:
		return r.walk(ctx, "", at, after, f)
	}
	return fmt.Errorf("search: match %d", t.Match)
}

// keys are those of the target's URLs, given a host that it holds.
func (t Target) keys() keyRange {
	switch t.Match {
	case MatchDomain, MatchAll:
		return keyRange{}
	case MatchExact:
		return keyRange{t.Key, true}
	case MatchPrefix:
		return keyRange{t.Key, false}
	}
	return siteKeys(t.Host)
}

func (r *Results) pace(done Position) error {
	if r.search.Pace == nil {
		return nil
	}
	return r.search.Pace(done, r.scanned)
}

// fetched reports whether a time is within those wanted.
func (s *Search) fetched(t time.Time) bool {
	return (s.From.IsZero() || !t.Before(s.From)) && (s.To.IsZero() || !t.After(s.To))
}

// spans reports whether something of a crawl span may be wanted.
func (s *Search) spans(first, last time.Time) bool {
	return (s.From.IsZero() || last.IsZero() || !last.Before(s.From)) && (s.To.IsZero() || first.IsZero() || !first.After(s.To))
}
