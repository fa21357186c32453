package records

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/urlindex"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Search says which records are wanted. Targets come one after another. A site's records come by
// URL key, then by time. A domain's come host by host in the order of the tree (catalog.Key), and
// each host's by URL key and time.
type Search struct {
	Targets  []library.Target
	From, To time.Time // of the fetch, both inclusive; zero: open
	Edition  string    // only records that this edition brought; "": any
	Of       string    // only records of this collection; "": any
	After    *Position // continue behind it; nil: from the beginning
	Until    *Position // end before it, forwards only; nil: at the end
	Reverse  bool      // sites from their last record to their first

	// Pace, if set, is called from time to time with the search's progress: done is the position
	// before which everything was searched, and scanned is how many records were looked at. An
	// error ends the search. So it bounds what an answer may cost.
	Pace func(done Position, scanned int64) error
}

// endKey lies behind all URL keys of a host.
const endKey = "\x7f"

// errPast ends a search that has reached Search.Until.
var errPast = errors.New("all that is wanted has been searched")

// paceEvery is how many records are looked at between calls of Search.Pace.
const paceEvery = 1024

// Results are the results of a search in one version of the catalog. They must be closed, and must
// not be used concurrently.
type Results struct {
	finder  *finder
	view    *library.AccountView
	search  Search
	scanned int64

	// The hosts of the site searched last. Many URLs of one site may follow one another in a list.
	lastSite  string
	lastHosts []*library.Host
}

// Search opens a search for records that the account sees, in one version of the catalog.
func (r *Records) Search(ctx context.Context, a *account.Account, s Search) (*Results, error) {
	v, err := r.archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	return &Results{finder: r.finder(a), view: v, search: s}, nil
}

// Close lets go of the catalog's version.
func (r *Results) Close() { r.view.Release() }

// Each calls f with each record and its position. It ends with the first error.
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
	case library.MatchExact, library.MatchPrefix, library.MatchHost:
		if t.Host != r.lastSite {
			hosts, err := siteHosts(ctx, r.view, t.Host)
			if err != nil {
				return fmt.Errorf("search %s: %w", t.Host, err)
			}
			r.lastSite, r.lastHosts = t.Host, hosts
		}
		return r.scan(ctx, r.lastHosts, keysOf(t), at, after, f)
	case library.MatchDomain:
		return r.domain(ctx, naming.HostPath(t.Host), at, after, f)
	case library.MatchAll:
		return r.domain(ctx, "", at, after, f)
	}
	return fmt.Errorf("search: match %d", t.Match)
}

// domain searches the hosts at and below a place, on every port.
func (r *Results) domain(ctx context.Context, place string, at Position, after *Position, f func(*Capture, Position) error) error {
	from := ""
	if after != nil {
		from = after.Host
	}
	return r.view.HostsUnder(ctx, place, from, func(h catalog.HostInfo) error {
		at.Host = h.SURT
		if until := r.search.Until; until != nil && until.Target == at.Target && until.Host == h.SURT && until.Key == "" {
			return errPast
		}
		if r.search.spans(h.First, h.Last) {
			found, err := r.view.Host(ctx, naming.HostPath(h.Host))
			if err != nil {
				return err
			}
			if found != nil {
				behind := after
				if after != nil && after.Host != h.SURT {
					behind = nil
				}
				if err := r.scan(ctx, []*library.Host{found}, siteKeys(h.Host), at, behind, f); err != nil {
					return err
				}
			}
		}
		return r.pace(Position{at.Target, h.SURT, urlindex.Position{Key: endKey}})
	})
}

// scan calls f with the records of hosts within a range of keys, by key, time and publication.
func (r *Results) scan(ctx context.Context, hosts []*library.Host, keys keyRange, at Position, after *Position, f func(*Capture, Position) error) error {
	s := scan{finder: r.finder, hosts: hosts, keys: keys, reverse: r.search.Reverse, wanted: r.search.wants}
	if after != nil {
		s.after = &after.Position
	}
	n := 0
	return s.each(ctx, func(is *found) error {
		pos := Position{at.Target, at.Host, is.at}
		if until := r.search.Until; until != nil && until.Target == pos.Target && until.Host == pos.Host && is.at.Compare(until.Position) >= 0 {
			return errPast
		}
		r.scanned++
		if r.search.fetched(is.cell.Time) {
			if c := is.capture(r.finder); c != nil {
				if err := f(c, pos); err != nil {
					return err
				}
			}
		}
		if n++; n%paceEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			return r.pace(pos)
		}
		return nil
	})
}

func (r *Results) pace(done Position) error {
	if r.search.Pace == nil {
		return nil
	}
	return r.search.Pace(done, r.scanned)
}

// fetched reports whether a time is between From and To.
func (s *Search) fetched(t time.Time) bool {
	return (s.From.IsZero() || !t.Before(s.From)) && (s.To.IsZero() || !t.After(s.To))
}

// wants reports whether records of a segment may be wanted.
func (s *Search) wants(seg *catalog.SegmentEntry) bool {
	return (s.Edition == "" || s.Edition == seg.Edition) && (s.Of == "" || s.Of == seg.Collection) && s.spans(seg.First, seg.Last)
}

// spans reports whether records with times from first to last may be wanted.
func (s *Search) spans(first, last time.Time) bool {
	return (s.From.IsZero() || last.IsZero() || !last.Before(s.From)) && (s.To.IsZero() || first.IsZero() || !first.After(s.To))
}

// siteHosts returns the hosts that share a host's URL keys: the host itself and its namesakes with
// and without www.
func siteHosts(ctx context.Context, v *library.AccountView, name string) ([]*library.Host, error) {
	names, err := namesakes(ctx, v, name)
	if err != nil {
		return nil, err
	}
	var hosts []*library.Host
	for _, name := range names {
		h, err := v.Host(ctx, naming.HostPath(name))
		if err != nil {
			return nil, err
		}
		if h != nil {
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

// namesakes returns the names that a host may have with and without www. It leaves out names such
// as www3 of which nothing is published.
func namesakes(ctx context.Context, v *library.AccountView, name string) ([]string, error) {
	surt := naming.HostSURT(name)
	if key, _, _ := strings.Cut(naming.SURT("http://"+name+"/"), ")"); key != surt {
		_, name, _ = strings.Cut(name, ".") // the key has no www, and the name has
	}
	names := []string{name, "www." + name}
	if strings.HasPrefix(naming.HostPath(name), "_ip/") {
		return names[:1], nil
	}
	numbered, err := numberedNames(ctx, v, name)
	return append(names, numbered...), err
}

// numberedNames returns the names such as www1.example.jp beside a name without www. It caches them
// for this version of the catalog.
func numberedNames(ctx context.Context, v *library.AccountView, name string) (names []string, err error) {
	memory := fmt.Sprintf("numbered %d %s %s", v.Snap.Version(), name, v.Veil.State())
	if kept, ok := v.Archive.Memo.Get(memory); ok {
		return kept.([]string), nil
	}
	// They lie beside one another: '/' sorts before the digits, ':' behind them.
	bare, port, hasPort := strings.Cut(name, ":")
	beside, err := v.Snap.Children(ctx, naming.HostPath(bare), "www/", library.PageSize)
	if err != nil {
		return nil, err
	}
	for _, c := range beside {
		digits, ok := strings.CutPrefix(c.Name, "www")
		if !ok || digits >= ":" {
			break
		}
		digits, of, ported := strings.Cut(digits, "_")
		if c.Leaf && strings.Trim(digits, "0123456789") == "" && of == port && ported == hasPort {
			names = append(names, "www"+digits+"."+name)
		}
	}
	v.Archive.Memo.Add(memory, names, int64(1+len(names))*64)
	return names, nil
}
