package records

import (
	"context"
	"strconv"
	"time"

	"sheaf/archive"
)

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
