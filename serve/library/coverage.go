package library

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store"
	"sheaf/internal/api"
	"sheaf/internal/cache"
	"sheaf/internal/weburl"
	"sheaf/internal/wire"
	"sheaf/serve/account"
)

// CoverageSearch says of which hosts and times coverage is wanted.
type CoverageSearch struct {
	Targets  []Target
	From, To time.Time // when batches were sealed, both inclusive; zero: open
	After    string    // a cursor
	Limit    int
	Time     time.Duration // an answer ends early after this time; 0: never
}

// within reports whether a time lies between From and To.
func (s *CoverageSearch) within(t time.Time) bool {
	return (s.From.IsZero() || !t.Before(s.From)) && (s.To.IsZero() || !t.After(s.To))
}

// FindCoverage returns up to s.Limit lines of coverage of the wanted hosts that the account sees,
// by robot, then by time. next is the cursor of the rest, empty at the end. If s.Time runs out,
// there may be a rest even if nothing was found.
func FindCoverage(ctx context.Context, from *Library, a *account.Account, s CoverageSearch) (found []api.Coverage, next string, err error) {
	after, err := parseCoverageCursor(s.After)
	if err != nil {
		return nil, "", err
	}
	v, err := from.View(ctx, a)
	if err != nil {
		return nil, "", err
	}
	defer v.Release()
	targets, begun := indexTargets(s.Targets), time.Now()
	for b, err := range v.Snap.Batches(ctx, after.batch) {
		if err != nil {
			return nil, "", fmt.Errorf("coverage: %w", err)
		}
		skip := 0
		if b.ID == after.batch {
			if skip = after.host; !after.left {
				continue
			}
		}
		some, at, err := coverageInBatch(ctx, v, b, &s, targets, skip, s.Limit-len(found))
		if err != nil {
			return nil, "", err
		}
		found = append(found, some...)
		if at >= 0 {
			return found, coverageCursor{batch: b.ID, host: at, left: true}.String(), nil
		}
		if s.Time > 0 && time.Since(begun) > s.Time {
			return found, coverageCursor{batch: b.ID}.String(), nil
		}
	}
	return found, "", nil
}

// coverageInBatch returns the coverage of up to limit wanted hosts from a batch's manifest, from
// the skip-th host on. at is the number of the host at which to continue; -1: the manifest ends.
func coverageInBatch(ctx context.Context, v *AccountView, b catalog.PublishedBatch, s *CoverageSearch, targets targetIndex, skip, limit int) (found []api.Coverage, at int, err error) {
	if !s.From.IsZero() && b.Published.Before(s.From) || !s.To.IsZero() && openedAt(b.ID).After(s.To) {
		return nil, -1, nil // it was sealed between these two times
	}
	m, err := batchManifest(ctx, v.Archive, b.ID)
	if err != nil || m == nil || !s.within(m.Created) {
		return nil, -1, err
	}
	for i, c := range m.Coverage {
		if i < skip {
			continue
		}
		shown, ok := shownCoverage(v, m, c, targets, catalog.SegmentEntry{
			Host: c.Host, Origin: catalog.Origin{Batch: b.ID}, Edition: b.Edition, First: m.Created, Last: m.Created, Published: b.Published,
		})
		if !ok {
			continue
		}
		if len(found) == limit {
			return found, i, nil
		}
		found = append(found, shown)
	}
	return found, -1, nil
}

// CoverageOfHosts returns what manifests say about hosts: for each host, the manifests of the
// batches that brought its segments. The results are in the order of the batches.
func CoverageOfHosts(ctx context.Context, from *Library, a *account.Account, hosts []*Host) (found []api.Coverage, err error) {
	v, err := from.View(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	batches := make(map[string]map[string]*catalog.SegmentEntry) // by batch, its segments by host
	for _, h := range hosts {
		for i := range h.Segments {
			seg := &h.Segments[i]
			if batches[seg.Batch] == nil {
				batches[seg.Batch] = make(map[string]*catalog.SegmentEntry)
			}
			batches[seg.Batch][h.Name] = seg
		}
	}
	everything := indexTargets([]Target{{Match: MatchAll}})
	for _, id := range slices.Sorted(maps.Keys(batches)) {
		m, err := batchManifest(ctx, from, id)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		for _, c := range m.Coverage {
			if seg := batches[id][c.Host]; seg != nil {
				if shown, ok := shownCoverage(v, m, c, everything, *seg); ok {
					found = append(found, shown)
				}
			}
		}
	}
	return found, nil
}

// openedAt returns the time at which a batch was opened, as its ID says; zero if the ID has no
// time.
func openedAt(id string) time.Time {
	parts := strings.Split(id, "-")
	if len(parts) < 3 {
		return time.Time{}
	}
	t, _ := time.Parse("20060102T150405Z", parts[len(parts)-2]) // zero if it fails
	return t
}

// batchManifest returns the manifest of a batch, without its hosts; nil if it is not kept.
func batchManifest(ctx context.Context, from *Library, id string) (*wire.Manifest, error) {
	return cache.GetOrCompute(ctx, from.Memo, "manifest "+id, func(ctx context.Context) (*wire.Manifest, int64, error) {
		r, err := from.Segments.Store.Open(ctx, wire.ManifestKey(wire.BatchID(id)), 0, -1)
		if errors.Is(err, store.ErrNotExist) {
			return nil, 128, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("manifest of %s: %w", id, err)
		}
		defer r.Close()
		data, err := io.ReadAll(io.LimitReader(r, wire.MaxManifest+1))
		if err != nil {
			return nil, 0, fmt.Errorf("manifest of %s: %w", id, err)
		}
		m, err := wire.PeekManifest(data) // ingest has checked the signature
		if err != nil {
			return nil, 0, fmt.Errorf("manifest of %s: %w", id, err)
		}
		m.Hosts = nil // the catalog has them
		return m, 2 * int64(len(data)), nil
	})
}

// shownCoverage returns what the account may know of a host's coverage in a manifest, and whether
// it is wanted. It leaves out URLs that are not wanted, hidden or taken down. in stands for what
// the batch brought of the host.
func shownCoverage(v *AccountView, m *wire.Manifest, c wire.Coverage, targets targetIndex, in catalog.SegmentEntry) (shown api.Coverage, ok bool) {
	wanted := targets.of(c.Host)
	if len(wanted) == 0 || !v.Scope.Holds(naming.HostPath(c.Host)) || v.Veil.Hides(in) {
		return shown, false
	}
	var taken []weburl.Prefix
	for _, t := range v.Snap.Tombstones(c.Host) {
		switch {
		case t.Edition != "" && t.Edition != in.Edition || t.Act == catalog.Erase, t.Collection != "":
		case t.URLPrefix == "":
			return shown, false
		default:
			taken = append(taken, weburl.PrefixOf(t.URLPrefix))
		}
	}
	c.URLs = slices.DeleteFunc(slices.Clone(c.URLs), func(u wire.CoveredURL) bool {
		key := naming.SURT(u.URL)
		return v.Veil.HidesRecord(in, u.URL, in.Last) ||
			slices.ContainsFunc(taken, func(p weburl.Prefix) bool { return p.Holds(u.URL) }) ||
			!slices.ContainsFunc(wanted, func(t Target) bool { return t.Holds(key) })
	})
	return api.Coverage{Coverage: c, Batch: in.Batch, Robot: m.Robot, Edition: in.Edition, Created: m.Created.UTC(), Published: in.Published.UTC()}, true
}

// targetIndex finds the targets that may have records of a host.
type targetIndex struct {
	everything []Target
	domains    map[string]Target
	sites      map[string][]Target // by siteOf
}

func indexTargets(targets []Target) targetIndex {
	x := targetIndex{domains: make(map[string]Target), sites: make(map[string][]Target)}
	for _, t := range targets {
		switch t.Match {
		case MatchAll:
			x.everything = append(x.everything, t)
		case MatchDomain:
			x.domains[t.Host] = t
		default:
			site := siteOf(t.Host)
			x.sites[site] = append(x.sites[site], t)
		}
	}
	return x
}

func (x targetIndex) of(host string) []Target {
	found := slices.Concat(x.everything, x.sites[siteOf(host)])
	if len(x.domains) == 0 {
		return found
	}
	name := host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name = host[:i]
	}
	for name != "" {
		if t, ok := x.domains[name]; ok {
			found = append(found, t)
		}
		_, name, _ = strings.Cut(name, ".")
	}
	return found
}

// siteOf returns the beginning of a host's URL keys.
func siteOf(host string) string {
	site, _, _ := strings.Cut(naming.SURT("http://"+host+"/"), ")")
	return site
}

// coverageCursor is a place among manifests: behind a batch or, if some of it is left, at one of
// its hosts.
type coverageCursor struct {
	batch string
	host  int
	left  bool
}

func (c coverageCursor) String() string {
	text := c.batch
	if c.left {
		text += "\x00" + strconv.Itoa(c.host)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func parseCoverageCursor(text string) (c coverageCursor, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	var host string
	c.batch, host, c.left = strings.Cut(string(raw), "\x00")
	if c.left && err == nil {
		c.host, err = strconv.Atoi(host)
	}
	if err != nil || c.host < 0 || c.batch != "" && !wire.BatchID(c.batch).Valid() {
		return c, fmt.Errorf("%w: %.80q", ErrCursor, text)
	}
	return c, nil
}

// Match says which records belong to a Target.
type Match int8

const (
	MatchExact  Match = iota + 1 // one URL key
	MatchPrefix                  // the URL keys of one site that begin with Key
	MatchHost                    // all of one site
	MatchDomain                  // a host and all below it, on every port
	MatchAll                     // everything
)

// Target is what a search goes through. A site is a host and its namesakes with and without www:
// their URLs have the same keys.
type Target struct {
	Match Match
	Host  string // as naming.HostOf returns it; for MatchDomain without a port; "" for MatchAll
	Key   string // for MatchExact the URL key; for MatchPrefix its beginning
}

// Holds reports whether the target has a URL key of one of its hosts.
func (t Target) Holds(key string) bool {
	if t.Match == MatchExact {
		return key == t.Key
	}
	return strings.HasPrefix(key, t.KeyPrefix())
}

// KeyPrefix returns the common beginning of the keys of the target's URLs. With MatchExact it is
// the only key; with MatchDomain and MatchAll it is empty.
func (t Target) KeyPrefix() string {
	switch t.Match {
	case MatchDomain, MatchAll:
		return ""
	case MatchExact, MatchPrefix:
		return t.Key
	}
	return SiteKey(t.Host)
}

// SiteKey returns the common beginning of all URL keys of a host and its namesakes.
func SiteKey(host string) string {
	scheme := "http"
	if strings.HasSuffix(host, ":80") { // with https this port is part of the key
		scheme = "https"
	}
	site, _, _ := strings.Cut(naming.SURT(fmt.Sprintf("%s://%s/", scheme, host)), ")")
	return site + ")"
}
