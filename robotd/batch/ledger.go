package batch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sheaf/archive"
	"sheaf/internal/files"
	"sheaf/internal/preference"
	"sheaf/internal/wire"
)

// Kind is why a page was not collected, or a link not followed.
type Kind = string

// The kinds. KindLeft and KindLater are levels, which are not added up: only a host's last line
// counts.
const (
	KindRefused  Kind = "refused"  // by robots.txt, or because its owner asked the archive
	KindFailed   Kind = "failed"   // all tries have failed
	KindMarked   Kind = "marked"   // the answer is no page: see page.Judge
	KindWithheld Kind = "withheld" // the page asks not to be archived
	KindCut      Kind = "cut"      // a link that is not followed
	KindLeft     Kind = "left"     // still queued
	KindLater    Kind = "later"    // known, but the cycle has no time for it
)

// Uncollected is one line of a ledger: pages that were not collected, or links not followed.
type Uncollected struct {
	Kind   Kind
	Reason string
	Host   string
	N      int64  // how many pages or links; at least 1
	URL    string // one of them; may be empty
}

func (e Uncollected) line() string {
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\n", e.Kind, clean(e.Reason), clean(e.Host), e.N, clean(e.URL))
}

// clean replaces characters that would break a line.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, s)
}

func parse(line string) (Uncollected, error) {
	f := strings.SplitN(line, "\t", 5)
	if len(f) != 5 {
		return Uncollected{}, fmt.Errorf("%d fields, want 5", len(f))
	}
	n, err := strconv.ParseInt(f[3], 10, 64)
	if err != nil || n < 1 {
		return Uncollected{}, fmt.Errorf("count %q is not a positive number", f[3])
	}
	return Uncollected{f[0], f[1], f[2], n, f[4]}, nil
}

// Ledger has what was not collected since the last batch. It may be used concurrently.
type Ledger struct {
	path string

	mu     sync.Mutex // guards all below
	file   *os.File   // nil until the first line
	totals map[Kind]int64
	cycle  Reasons
}

// Reasons has counts by kind and reason.
type Reasons map[Kind]map[string]int64

func (r Reasons) add(e Uncollected) {
	counts := r[e.Kind]
	count(&counts, e.Reason, e.N)
	r[e.Kind] = counts
}

// OpenLedger opens the ledger at path. If there is no file, the first Add creates it.
func OpenLedger(path string) (*Ledger, error) {
	l := &Ledger{path: path, totals: make(map[Kind]int64), cycle: make(Reasons)}
	whole, err := each(path, l.count)
	if err != nil {
		return nil, err
	}
	if err := os.Truncate(path, whole); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return l, nil
}

func (l *Ledger) count(e Uncollected) {
	if e.Kind != KindLeft && e.Kind != KindLater {
		l.totals[e.Kind] += e.N
		l.cycle.add(e)
	}
}

// Add writes all lines or, with an error, none. They survive a crash at once, but a loss of power
// only after Move.
func (l *Ledger) Add(events ...Uncollected) error {
	var lines strings.Builder
	for _, e := range events {
		lines.WriteString(e.line())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		l.file = f
	}
	if err := files.Append(l.file, []byte(lines.String())); err != nil {
		return err
	}
	for _, e := range events {
		l.count(e)
	}
	return nil
}

// Totals returns the counts since the last Move, without KindLeft and KindLater.
func (l *Ledger) Totals() map[Kind]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.totals)
}

// BeginCycle sets the counts of Cycle to zero.
func (l *Ledger) BeginCycle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.cycle)
}

// Cycle returns the counts since BeginCycle, over all batches, without KindLeft and KindLater.
// Before the first BeginCycle, they include the lines that OpenLedger found.
func (l *Ledger) Cycle() Reasons {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(Reasons, len(l.cycle))
	for kind, reasons := range l.cycle {
		all[kind] = maps.Clone(reasons)
	}
	return all
}

// Move moves the file to a path on the same disk, for a batch; the next Add begins a new file. If
// no line was added, there is no file to move.
func (l *Ledger) Move(to string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		err := errors.Join(l.file.Sync(), l.file.Close())
		l.file = nil
		if err != nil {
			return err
		}
	}
	if err := os.Rename(l.path, to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	clear(l.totals)
	return nil
}

// Close closes the file. A later Add opens it again.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}

// each calls fn for every complete line of a ledger, and returns the offset behind the last such
// line. The file may be missing. It skips lines that cannot be read: counts with a gap are better
// than none.
func each(path string, fn func(Uncollected)) (whole int64, err error) {
	return files.EachLine(path, 0, func(line []byte, _ int64) error {
		if e, err := parse(string(line)); err == nil {
			fn(e)
		}
		return nil
	})
}

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
