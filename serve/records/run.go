package records

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/serve/account"
)

// Budget limits the cost of one answer. A query that exceeds it gets a partial answer with a
// cursor.
type Budget struct {
	Records int64         // records searched; 0: no limit
	Time    time.Duration // 0: no limit

	// Progress, if set, is called from time to time with the number of records searched. An error
	// ends the query.
	Progress func(scanned int64) error
}

// spent reports whether the budget is used up.
func (b *Budget) spent(scanned int64, begun time.Time) bool {
	return b.Records > 0 && scanned >= b.Records || b.Time > 0 && time.Since(begun) >= b.Time
}

// errEnough ends a search early.
var errEnough = errors.New("enough")

// Run runs the query and calls emit with each record. next is where to continue; nil means that
// this was all.
func (q *Query) Run(ctx context.Context, from *Records, a *account.Account, b Budget, emit func(Record) error) (next *Cursor, err error) {
	switch {
	case !q.closest.IsZero():
		return nil, q.runClosest(ctx, from, a, emit)
	case q.last:
		var last []Record
		_, err := q.run(ctx, from, a, Budget{}, func(c Record) error {
			last = append(last, c)
			return nil
		})
		for i := len(last) - 1; i >= 0 && err == nil; i-- {
			err = emit(last[i])
		}
		return nil, err
	}
	return q.run(ctx, from, a, b, emit)
}

// runner is a running query.
type runner struct {
	*Query
	send  func(Record) error
	left  int       // lines that may still be sent
	skip  int       // records still to be skipped
	until *Position // records up to here are only counted; nil: none
	done  Position  // the search must continue after this position
	marks []string  // of each collapse, from the last record that reached it

	budget   Budget
	begun    time.Time
	searched int64 // records, as far as the search has told

	best   *Capture // newest record so far of its URL key, if only the newest is wanted
	bestAt Position

	counting
}

func (q *Query) run(ctx context.Context, from *Records, a *account.Account, b Budget, emit func(Record) error) (*Cursor, error) {
	r := &runner{Query: q, send: emit, left: cmp.Or(q.Limit, math.MaxInt), skip: q.skip, marks: make([]string, len(q.collapses)), budget: b, begun: time.Now()}
	r.seen = make(map[string]int)
	search := q.Search
	if ok, err := q.bound(ctx, from, a, &search); err != nil || !ok {
		return nil, err
	}
	if q.Cursor != nil {
		r.done, r.skip = q.Cursor.Position, q.Cursor.Skip
		copy(r.marks, q.Cursor.Marks)
		if q.counters.dupes { // the query is for one URL: its earlier records are counted again
			r.until, search.After = search.After, nil
			clear(r.marks)
		}
	}
	search.Pace = r.pace(ctx)
	expensive := q.readsRecords()
	results, err := from.Search(ctx, a, search)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	err = results.Each(ctx, func(c *Capture, at Position) error {
		err := r.take(ctx, c, at)
		if err == nil && expensive {
			err = r.pause(at)
		}
		return err
	})
	if err == nil && r.best != nil {
		err = r.accept(ctx, r.best, r.bestAt)
	}
	enough := errors.Is(err, errEnough)
	if err == nil || enough {
		err = r.flush()
	}
	if enough && err == nil {
		return r.cursor(search.Until), nil
	}
	return nil, err
}

// pace returns the function for Search.Pace.
func (r *runner) pace(ctx context.Context) func(Position, int64) error {
	return func(at Position, scanned int64) error {
		r.searched = scanned
		if r.budget.Progress != nil {
			if err := r.budget.Progress(scanned); err != nil {
				return err
			}
		}
		if err := r.settle(ctx, at); err != nil {
			return err
		}
		return r.pause(at)
	}
}

// pause ends the search at a position, if it may end there and has cost enough.
func (r *runner) pause(at Position) error {
	if r.best != nil || r.until != nil {
		return nil
	}
	r.done = at
	if r.budget.spent(r.searched, r.begun) {
		return errEnough
	}
	return nil
}

// cursor returns where to continue. until is the end of the page, if the query is for one.
func (r *runner) cursor(until *Position) *Cursor {
	return &Cursor{Query: r.id(), Issued: time.Now().Unix(), Position: r.done, Marks: r.marks, Skip: r.skip, Until: until}
}

// pass reports whether a record passes all filters.
func (q *Query) pass(ctx context.Context, c *Capture) (bool, error) {
	for _, f := range q.asked {
		if !f.Holds(c.Preferences) {
			return false, nil
		}
	}
	for i := range q.filters {
		if ok, err := q.filters[i].pass(ctx, c); err != nil || !ok {
			return false, err
		}
	}
	if q.modified == nil {
		return true, nil
	}
	at, err := c.Modified(ctx) // last, because it reads a part of the record
	return err == nil && !at.IsZero() && q.modified.has(at), err
}

// readsRecords reports whether the query must read records themselves, not only the index, to find
// out which it selects.
func (q *Query) readsRecords() bool {
	reads := func(field string) bool {
		return field == fieldModified || field == fieldCharset || field == fieldLanguage || strings.HasPrefix(field, warcField)
	}
	return q.modified != nil ||
		slices.ContainsFunc(q.filters, func(f Filter) bool { return reads(f.field) }) ||
		slices.ContainsFunc(q.collapses, func(c collapse) bool { return reads(c.field) })
}

// take accepts a record that passes all filters. If only the newest of each URL key is wanted, it
// keeps the record for settle instead.
func (r *runner) take(ctx context.Context, c *Capture, at Position) error {
	if err := r.settle(ctx, at); err != nil {
		return err
	}
	ok, err := r.pass(ctx, c)
	switch {
	case err != nil || !ok:
		r.skipped(c)
		return err
	case r.latest:
		r.best, r.bestAt = c, at
		return nil
	}
	return r.accept(ctx, c, at)
}

// settle accepts the newest record of a URL key once the search has left the key.
func (r *runner) settle(ctx context.Context, at Position) error {
	if r.best == nil || r.bestAt.Key == at.Key && r.bestAt.Host == at.Host && r.bestAt.Target == at.Target {
		return nil
	}
	err := r.accept(ctx, r.best, r.bestAt)
	if err == nil {
		r.best = nil
	}
	return err
}

// accept applies the collapses, offset and limit to a record, and emits it. The first record beyond
// the limit ends the search: so it is certain that there is more.
func (r *runner) accept(ctx context.Context, c *Capture, at Position) error {
	before := r.countDupe(c)
	marks := slices.Clone(r.marks)
	for i, collapse := range r.collapses {
		mark, ok, err := collapse.pass(ctx, c, marks[i])
		if err != nil {
			return err
		}
		marks[i] = mark
		if !ok {
			r.skipped(c)
			r.marks, r.done = marks, at
			return nil
		}
	}
	switch {
	case r.until != nil && r.until.Compare(at.Position) >= 0:
		r.marks = marks
		return nil
	case r.skip > 0:
		r.until = nil
		r.skip--
		r.marks, r.done = marks, at
		return nil
	case r.left == 0:
		return errEnough
	}
	r.until = nil
	r.left--
	r.marks, r.done = marks, at
	return r.emit(Record{Capture: c, Dupes: before})
}

// runClosest emits the records nearest to q.closest, nearest first.
func (q *Query) runClosest(ctx context.Context, from *Records, a *account.Account, emit func(Record) error) error {
	results, err := from.Search(ctx, a, q.Search)
	if err != nil {
		return err
	}
	defer results.Close()
	var near []*Capture
	byDistance := func(a, b *Capture) int {
		return cmp.Compare(a.Time.Sub(q.closest).Abs(), b.Time.Sub(q.closest).Abs())
	}
	err = results.Each(ctx, func(c *Capture, _ Position) error {
		ok, err := q.pass(ctx, c)
		if ok {
			near = append(near, c)
		}
		if wanted := q.Limit + q.skip; q.Limit > 0 && len(near) >= 2*wanted+stableCut {
			slices.SortStableFunc(near, byDistance)
			near = near[:wanted]
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(near, byDistance)
	near = near[min(q.skip, len(near)):]
	for _, c := range near[:min(cmp.Or(q.Limit, len(near)), len(near))] {
		if err := emit(Record{Capture: c}); err != nil {
			return err
		}
	}
	return nil
}

// stableCut is the number of surplus records that are kept before they are cut.
const stableCut = 1024

// Record is a record of an answer, with its counts.
type Record struct {
	*Capture
	Dupes    int       // earlier records with the same URL key and digest
	Skipped  int64     // records after it that filters and collapses left out
	SkipsEnd time.Time // time of the last of these; zero: none
}

// counters says what to count, as at the Internet Archive.
type counters struct {
	dupes, skips, skipsEnd bool
}

// held reports whether a record must wait for the next record before it is complete.
func (c counters) held() bool { return c.skips || c.skipsEnd }

// countFields returns the names of the fields that parameters add.
func (q *Query) countFields() []string {
	var names []string
	if q.resolve {
		names = append(names, originalLength, originalOffset, originalFile)
	}
	if q.counters.dupes {
		names = append(names, fieldDupes)
	}
	if q.counters.skips {
		names = append(names, fieldSkips)
	}
	if q.counters.skipsEnd {
		names = append(names, fieldSkipsEnd)
	}
	return names
}

// counting is the state of the counters.
type counting struct {
	seen map[string]int // number of records, by digest
	held *Record        // the record that waits for its skipped records
}

// countDupe counts a record that passes all filters. It returns how many earlier records have its
// digest; 0 if the query does not ask for that.
func (r *runner) countDupe(c *Capture) (before int) {
	if !r.counters.dupes {
		return 0
	}
	before = r.seen[c.Digest]
	r.seen[c.Digest]++
	return before
}

// skipped counts a record that is left out.
func (r *runner) skipped(c *Capture) {
	if r.held != nil {
		r.held.Skipped++
		r.held.SkipsEnd = c.Time
	}
}

// emit sends a record, at once or, if skipped records are counted, when the next record comes.
func (r *runner) emit(c Record) error {
	if !r.counters.held() {
		return r.send(c)
	}
	err := r.flush()
	r.held = &c
	return err
}

// flush sends the waiting record, if any.
func (r *runner) flush() error {
	if r.held == nil {
		return nil
	}
	c := *r.held
	r.held = nil
	return r.send(c)
}

// resolved says whether the page that a revisit refers to is here: "true" or "false". It is "" for
// other records.
func resolved(ctx context.Context, c *Capture) (string, error) {
	if c.Kind != archive.Revisit {
		return "", nil
	}
	page, err := c.Resolve(ctx)
	return strconv.FormatBool(page != nil), err
}

// original returns a field of the record that a revisit refers to, or "" without that record.
func original(ctx context.Context, c *Capture, name string) (string, error) {
	page, err := c.Resolve(ctx)
	if err != nil || page == nil {
		return "", err
	}
	switch name {
	case originalOffset:
		name = fieldOffset
	case originalFile:
		name = fieldFilename
	default:
		name = fieldLength
	}
	return value(ctx, Record{Capture: page}, name)
}
