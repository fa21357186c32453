package serve

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/wire"
	"sheaf/serve/account"
)

// Coverage is what a robot's signed manifest says became of one host's pages, and
// where it was said. Pages that a batch did bring, errors and truncated ones too, are records.
type Coverage struct {
	wire.Coverage
	Batch     string    `json:"batch"`
	Robot     string    `json:"robot"`
	Edition   string    `json:"edition"`
	Created   time.Time `json:"created"` // when the batch was sealed
	Published time.Time `json:"published"`
}

// CoverageSearch says of which hosts and times coverage is wanted.
type CoverageSearch struct {
	Targets  []Target
	From, To time.Time // of the batches' sealing, both inclusive; zero: open
	After    string    // a cursor
	Limit    int
	Time     time.Duration // after which an answer ends early; 0: never
}

// coveragePage is how many batches are asked for at once.
const coveragePage = 256

// Coverage returns up to a limit what manifests say of the hosts wanted that the
// account may see, robot by robot and each by time. Next is the cursor for more,
// empty at the end; there may be more where nothing was found in the time given.
func (l *Library) Coverage(ctx context.Context, a *account.Account, s CoverageSearch) (found []Coverage, next string, err error) {
	after, err := parseCoverageCursor(s.After)
	if err != nil {
		return nil, "", err
	}
	v, err := l.visit(ctx, a)
	if err != nil {
		return nil, "", err
	}
	defer v.snap.Release()
	targets, begun := indexTargets(s.Targets), time.Now()
	from := after.batch // the page begins with this batch itself, where some of it is left
	for first := true; ; first = false {
		batches, err := v.snap.Batches(ctx, from, coveragePage)
		if err != nil {
			return nil, "", err
		}
		full := len(batches) == coveragePage
		if first && after.left {
			again, err := v.batch(ctx, after.batch)
			if err != nil {
				return nil, "", err
			}
			batches = append(again, batches...)
		}
		for _, b := range batches {
			skip := 0
			if after.left && b.ID == after.batch {
				skip = after.host
			}
			some, at, err := v.coverageOf(ctx, b, &s, targets, skip, s.Limit-len(found))
			if err != nil {
				return nil, "", err
			}
			found = append(found, some...)
			if at >= 0 {
				return found, coverageCursor{batch: b.ID, host: at, left: true}.String(), nil
			}
			from = b.ID
			if s.Time > 0 && time.Since(begun) > s.Time {
				return found, coverageCursor{batch: b.ID}.String(), nil
			}
		}
		if !full {
			return found, "", nil
		}
	}
}

// batch gives the batch of an ID, if it is published.
func (v *visit) batch(ctx context.Context, id string) ([]catalog.PublishedBatch, error) {
	version, ok, err := v.snap.Batch(ctx, id)
	if err != nil || !ok {
		return nil, err
	}
	return []catalog.PublishedBatch{{Batch: catalog.Batch{ID: id}, Version: version}}, nil
}

// coverageOf gives what a batch's manifest says of the hosts wanted, from the skip-th
// host on. At is where to go on for more than limit; -1: that was all.
func (v *visit) coverageOf(ctx context.Context, b catalog.PublishedBatch, s *CoverageSearch, targets targetIndex, skip, limit int) (found []Coverage, at int, err error) {
	if !s.From.IsZero() && b.Published.Before(s.From) || !s.To.IsZero() && batchOpened(b.ID).After(s.To) {
		return nil, -1, nil // sealed in between
	}
	m, err := v.manifest(ctx, b.ID)
	if err != nil || m == nil {
		return nil, -1, err
	}
	if !s.From.IsZero() && m.Created.Before(s.From) || !s.To.IsZero() && m.Created.After(s.To) {
		return nil, -1, nil
	}
	for i, c := range m.Coverage {
		if i < skip {
			continue
		}
		c, ok := v.mayKnow(c, targets, b.Edition)
		if !ok {
			continue
		}
		if len(found) == limit {
			return found, i, nil
		}
		found = append(found, Coverage{
			Coverage: c, Batch: b.ID, Robot: m.Robot, Edition: b.Edition, Created: m.Created.UTC(), Published: b.Published.UTC(),
		})
	}
	return found, -1, nil
}

// batchOpened is when a batch was opened, by its ID; long ago where that does not say.
func batchOpened(id string) time.Time {
	parts := strings.Split(id, "-")
	if len(parts) < 3 {
		return time.Time{}
	}
	t, err := time.Parse("20060102T150405Z", parts[len(parts)-2])
	if err != nil {
		return time.Time{}
	}
	return t
}

// manifest reads what is kept of a batch's; nil where nothing is.
func (l *Library) manifest(ctx context.Context, id string) (*wire.Manifest, error) {
	return recall(ctx, l.cache, "manifest "+id, func(ctx context.Context) (*wire.Manifest, int64, error) {
		r, err := l.Store.Open(ctx, wire.ManifestKey(wire.BatchID(id)), 0, -1)
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
		m, err := wire.PeekManifest(data) // ingest has checked whose it is
		if err != nil {
			return nil, 0, fmt.Errorf("manifest of %s: %w", id, err)
		}
		m.Hosts = nil // of which the catalog has the lines
		return m, 2 * int64(len(data)), nil
	})
}

// mayKnow gives what the account may know of a host's coverage, and whether it is
// wanted. URLs that are not wanted, or taken down, are left out.
func (v *visit) mayKnow(c wire.Coverage, targets targetIndex, edition string) (wire.Coverage, bool) {
	place := archive.HostPath(c.Host)
	wanted := targets.of(c.Host)
	if len(wanted) == 0 || !v.scope.Holds(place) {
		return c, false
	}
	var taken []catalog.Tombstone
	for _, t := range v.snap.Tombstones(c.Host) {
		switch {
		case t.Edition != "" && t.Edition != edition || t.Act == catalog.Erase:
		case t.URLPrefix == "":
			return c, false
		default:
			taken = append(taken, t)
		}
	}
	c.URLs = slices.DeleteFunc(slices.Clone(c.URLs), func(u wire.CoveredURL) bool {
		key := archive.SURT(u.URL)
		return slices.ContainsFunc(taken, func(t catalog.Tombstone) bool { return strings.HasPrefix(u.URL, t.URLPrefix) }) ||
			!slices.ContainsFunc(wanted, func(t Target) bool { return t.keys().holds(key) })
	})
	return c, true
}

// targetIndex finds the targets that records of a host may belong to.
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

// siteOf is what the URL keys of a host begin with.
func siteOf(host string) string {
	site, _, _ := strings.Cut(archive.SURT("http://"+host+"/"), ")")
	return site
}

// coverageCursor is a place among manifests: behind a batch or, where some of it is
// left, at one of its hosts.
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
