package query

import (
	"context"
	"time"

	"sheaf/serve"
)

// Record is one record of an answer, with what was counted for it.
type Record struct {
	*serve.Capture
	Dupes    int       // records before it, of the same URL key and digest
	Skipped  int64     // records behind it that filters and collapses left out, up to the next
	SkipsEnd time.Time // of the last of these; zero: there is none
}

// counters say what is counted, as the Internet Archive has it.
type counters struct {
	dupes, skips, skipsEnd bool
}

// held reports whether a record must wait for those behind it.
func (c counters) held() bool { return c.skips || c.skipsEnd }

// fields are what is told beside a record's own.
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
	seen map[string]int // by digest
	held *Record        // the record that still waits for those behind it
}

// pass counts a record that passes all filters, before any collapse.
func (r *runner) countDupe(c *serve.Capture) (before int) {
	if !r.counters.dupes {
		return 0
	}
	before = r.seen[c.Digest]
	r.seen[c.Digest]++
	return before
}

// skipped counts a record that is left out.
func (r *runner) skipped(c *serve.Capture) {
	if r.held != nil {
		r.held.Skipped++
		r.held.SkipsEnd = c.Time
	}
}

// emit gives a record out, at once or when the next one comes.
func (r *runner) emit(c Record) error {
	if !r.counters.held() {
		return r.send(c)
	}
	err := r.flush()
	r.held = &c
	return err
}

// flush gives out the record that waits.
func (r *runner) flush() error {
	if r.held == nil {
		return nil
	}
	c := *r.held
	r.held = nil
	return r.send(c)
}

// original gives what a record's field says of the page that it refers to; empty
// where there is none.
func original(ctx context.Context, c *serve.Capture, name string) (string, error) {
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
