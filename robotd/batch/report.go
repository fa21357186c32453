package batch

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"sheaf/archive"
	"sheaf/internal/preference"
	"sheaf/internal/wire"
)

// Bounds of the URLs that a report names. They do not bound the counts.
const (
	urlsPerHost = 20
	urlsInAll   = 5000
	longestURL  = 512 // bytes; longer ones are not named
)

// Report is the coverage by host for a batch's manifest.
type Report struct {
	hosts map[string]*wire.Coverage
	urls  int
}

// ReadReport returns a report on the ledger at path, which may be missing.
func ReadReport(path string) (*Report, error) {
	r := &Report{hosts: make(map[string]*wire.Coverage)}
	_, err := each(path, r.add)
	return r, err
}

func (r *Report) host(name string) *wire.Coverage {
	h := r.hosts[name]
	if h == nil {
		h = &wire.Coverage{Host: name}
		r.hosts[name] = h
	}
	return h
}

func (r *Report) add(e Uncollected) {
	h := r.host(e.Host)
	switch e.Kind {
	case KindRefused:
		h.Refused += e.N
	case KindWithheld:
		h.Withheld += e.N
	case KindFailed:
		count(&h.Failed, e.Reason, e.N)
	case KindMarked:
		count(&h.Marked, e.Reason, e.N)
	case KindCut:
		count(&h.Cut, e.Reason, e.N)
	case KindLeft:
		h.Left, h.LeftWhy = e.N, e.Reason
		return
	case KindLater:
		h.Later = e.N
		return
	}
	switch {
	case e.URL == "":
	case len(h.URLs) == urlsPerHost, r.urls == urlsInAll, len(e.URL) > longestURL:
		h.More = true
	default:
		h.URLs = append(h.URLs, wire.CoveredURL{URL: e.URL, Why: e.Kind + " " + e.Reason})
		r.urls++
	}
}

// maxReasons is how many different reasons are counted for a host. Further ones count as "other".
const maxReasons = 50

func count(m *map[string]int64, reason string, n int64) {
	if *m == nil {
		*m = make(map[string]int64)
	}
	if _, known := (*m)[reason]; !known && len(*m) >= maxReasons {
		reason = "other"
	}
	(*m)[reason] += n
}

// AddSegment counts the pages in a host's segment. A robots.txt does not count.
func (r *Report) AddSegment(idx *archive.Index) {
	h := r.host(idx.Host)
	for i := range idx.Cells {
		c := &idx.Cells[i]
		if preference.IsRobotsTxt(c.URL) {
			continue
		}
		switch c.Kind {
		case archive.Page:
			h.Collected++
			if c.Truncated != "" {
				count(&h.Truncated, c.Truncated, 1)
			}
		case archive.Revisit:
			h.Unchanged++
		case archive.Response:
			count(&h.Answers, strconv.Itoa(c.Status), 1)
		}
	}
}

// Hosts returns the report, sorted by host.
func (r *Report) Hosts() []wire.Coverage {
	all := make([]wire.Coverage, 0, len(r.hosts))
	for h := range maps.Values(r.hosts) {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b wire.Coverage) int { return cmp.Compare(a.Host, b.Host) })
	return all
}
