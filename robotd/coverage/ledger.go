// Package coverage keeps account of the pages that were not collected, and why, until
// the next batch takes the account along.
//
// The ledger is a file of one line per event, written as it happens, so that a
// crash loses none:
//
//	<kind> TAB <reason> TAB <host> TAB <n> TAB <url> LF
//
// What was collected is not in it: the batch's indexes tell that.
//
// Links are cut for these reasons; each stands for one link where nothing else is said:
//
//	depth           farther from the top page than page.max_depth
//	length          longer than page.max_path, or than a URL may be
//	host_full       the host has page.max_per_host URLs in this cycle
//	host_name       a host that no manager takes
//	redirects       the last of a chain of redirects that goes on
//	path_repeats, calendar, parameters
//	                package trap
//	page_links      beyond the 20,000 that are taken of one page
//	sitemap_links   beyond the 100,000 that are taken of one sitemap or feed
//	page_bytes      one page that is longer than the 8 MiB that are searched
//	sitemap_bytes   one sitemap or feed that is longer than 50 MiB
//	form_fields     one form with more fields than are sent
//	not_recorded    followed, but left out of the archive's links: beyond links.max
package coverage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Kind says what happened to a page or link.
type Kind string

// The kinds. Left and Later are levels, not events: the last line of a host counts.
const (
	Refused  Kind = "refused"  // by robots.txt
	Failed   Kind = "failed"   // all tries were in vain
	Marked   Kind = "marked"   // it is no page: see package verdict
	Withheld Kind = "withheld" // the page asks not to be archived
	Cut      Kind = "cut"      // a link that is not followed
	Left     Kind = "left"     // still queued
	Later    Kind = "later"    // known, and put off to a later cycle for want of room
)

func (k Kind) isLevel() bool { return k == Left || k == Later }

// Event is one line of a ledger.
type Event struct {
	Kind   Kind
	Reason string
	Host   string
	N      int64  // how many pages or links; at least 1
	URL    string // one of them; may be empty
}

func (e Event) line() string {
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\n", e.Kind, clean(e.Reason), clean(e.Host), e.N, clean(e.URL))
}

// clean keeps what would break a line out of it.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, s)
}

func parse(line string) (Event, error) {
	f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 5)
	if len(f) != 5 {
		return Event{}, fmt.Errorf("%d fields, want 5", len(f))
	}
	n, err := strconv.ParseInt(f[3], 10, 64)
	if err != nil || n < 1 {
		return Event{}, fmt.Errorf("count %q is not a positive number", f[3])
	}
	return Event{Kind(f[0]), f[1], f[2], n, f[4]}, nil
}

// Ledger is the account since the last batch. Many goroutines may use it at once.
type Ledger struct {
	path string

	mu     sync.Mutex // guards all below
	file   *os.File   // nil until the first event
	totals map[Kind]int64
	cycle  Reasons
}

// Reasons counts by kind and reason.
type Reasons map[Kind]map[string]int64

func (r Reasons) add(e Event) {
	if r[e.Kind] == nil {
		r[e.Kind] = make(map[string]int64)
	}
	reason := e.Reason
	if _, known := r[e.Kind][reason]; !known && len(r[e.Kind]) >= maxReasons {
		reason = "other"
	}
	r[e.Kind][reason] += e.N
}

// Open takes up the ledger at path, or begins it.
func Open(path string) (*Ledger, error) {
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

func (l *Ledger) count(e Event) {
	if !e.Kind.isLevel() {
		l.totals[e.Kind] += e.N
		l.cycle.add(e)
	}
}

// Add writes events. They survive the process; durable against loss of power
// they are after Move.
func (l *Ledger) Add(events ...Event) error {
	var lines strings.Builder
	for _, e := range events {
		lines.WriteString(e.line())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		l.file = f
	}
	if _, err := l.file.WriteString(lines.String()); err != nil {
		return err
	}
	for _, e := range events {
		l.count(e)
	}
	return nil
}

// Totals returns the counts since the last Move, without what is left.
func (l *Ledger) Totals() map[Kind]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.totals)
}

// BeginCycle makes the counts of Cycle begin anew.
func (l *Ledger) BeginCycle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.cycle)
}

// Cycle returns the counts since the cycle began or the ledger was opened, batches or no: those of
// what is left are not among them.
func (l *Ledger) Cycle() Reasons {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(Reasons, len(l.cycle))
	for kind, reasons := range l.cycle {
		all[kind] = maps.Clone(reasons)
	}
	return all
}

// Move gives the account to a batch: its file goes to the given path, on the same
// disk, and a new account begins. Where nothing happened there is no file.
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

// Close closes the file.
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

// each calls fn for every whole line of a ledger, which may be missing, and returns
// where the last of them ends. A line that cannot be read is passed over: an account
// with a gap is worth more than none.
func each(path string, fn func(Event)) (whole int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return whole, nil
		}
		if err != nil {
			return whole, err
		}
		whole += int64(len(line))
		if e, err := parse(line); err == nil {
			fn(e)
		}
	}
}
