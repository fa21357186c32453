package catalog

import (
	"bytes"
	"context"
	"fmt"
	"sheaf/archive/sortedrun"
	"slices"
	"time"
)

// Retention says how long editions are kept, and what is needed for longer.
type Retention struct {
	// Keep is how long after its publication a line is kept in any case; 0: for
	// ever. An older one expires when Expendable says so.
	Keep time.Duration
	// Expendable is given all lines of one host in the order of publication, and
	// tells of the first n, which are old enough, which nothing needs. It is asked
	// again at later collections, with what is left. Where it fails, the host is
	// left as it is.
	Expendable func(ctx context.Context, lines []SegmentEntry, n int) (expendable []bool, err error)
	// Since, where set, is the Retained of a collection before: hosts of which no
	// line has become old enough since then are not looked at again. What makes
	// an old line expendable becomes old itself, so nothing is forgotten.
	Since time.Time
}

// Retained is what a collection did about old editions.
type Retained struct {
	Before  time.Time `json:"before"`  // lines published before this were old enough
	Hosts   int64     `json:"hosts"`   // looked at
	Expired int64     `json:"expired"` // lines
	Bytes   int64     `json:"bytes"`   // of their segments
	// Failed are hosts that were left because Expendable failed, with why; the first hundred.
	Failed []string `json:"failed,omitempty"`
}

// maxFailed is how many hosts a report of retention names.
const maxFailed = 100

// retain lets lines expire that are older than what is kept and that nothing
// needs. They vanish from readers with the version that this appends; their
// objects are collected as all that nothing refers to.
func (k *collector) retain(ctx context.Context) (err error) {
	before := k.now.Add(-k.opt.Retention.Keep)
	k.report.Retained = &Retained{Before: before}
	expired := sortedrun.NewSorter(k.Catalog.opt.TempDir, k.Catalog.opt.SortMemory, bytes.Compare)
	defer func() {
		if closed := expired.Close(); err == nil {
			err = closed
		}
	}()
	h := &retainedHost{collector: k, expired: expired}
	known := openExpiries(k.head.runs)
	for row, err := range pass(ctx, k.head.runs, tableHost) {
		if err != nil {
			return err
		}
		gone, err := known.hold(ctx, row)
		if err != nil {
			return err
		}
		if gone {
			continue
		}
		if err := h.add(ctx, row); err != nil {
			return err
		}
	}
	if err := h.end(ctx); err != nil {
		return err
	}
	if k.opt.DryRun || k.report.Retained.Expired == 0 {
		return nil
	}
	return k.Catalog.expire(ctx, expired)
}

// retainedHost is the host whose lines are read.
type retainedHost struct {
	*collector
	expired *sortedrun.Sorter

	key  []byte // of the rows
	rows []byte // with newlines; none where the host has nothing old enough
	skip bool
}

// add takes the next row of the host table. Most rows are only passed: that a
// host has nothing to lose is seen by its first line.
func (h *retainedHost) add(ctx context.Context, row []byte) error {
	key := rowKey(row)
	key = key[:bytes.LastIndexByte(key, ' ')]
	if !bytes.Equal(key, h.key) {
		if err := h.end(ctx); err != nil {
			return err
		}
		h.key = append(h.key[:0], key...)
		published, err := publishedOfRow(row)
		if err != nil {
			return err
		}
		h.skip = !published.Before(h.report.Retained.Before) || h.head.tombstones.anyDown(string(key[len(tableHost):]))
	}
	if !h.skip {
		h.rows = append(append(h.rows, row...), '\n')
	}
	return nil
}

// end decides about the host's lines. The last one is always kept, so that a
// host with an archive has an edition, too.
func (h *retainedHost) end(ctx context.Context) error {
	var lines []SegmentEntry
	for row := range bytes.Lines(h.rows) {
		l, err := entryOfRow(bytes.TrimSuffix(row, []byte("\n")))
		if err != nil {
			return err
		}
		if !h.head.tombstones.cover(l) {
			lines = append(lines, l)
		}
	}
	h.rows = h.rows[:0]
	retained := h.report.Retained
	old := 0
	for old < len(lines) && lines[old].Published.Before(retained.Before) {
		old++
	}
	n := min(old, len(lines)-1)
	if n <= 0 || lines[old-1].Published.Before(h.opt.Retention.Since) {
		return nil
	}
	retained.Hosts++
	expendable, err := h.opt.Retention.Expendable(ctx, lines, n)
	if err != nil {
		if ctx.Err() == nil && len(retained.Failed) < maxFailed {
			retained.Failed = append(retained.Failed, fmt.Sprintf("%s: %v", lines[0].Host, err))
		}
		return ctx.Err()
	}
	for i, l := range lines[:n] {
		if !expendable[i] {
			continue
		}
		e := Expiry{Host: l.Host, Edition: l.Edition, Entry: l.Seq}
		row, err := appendRow(nil, e.key(), e)
		if err != nil {
			return err
		}
		if err := h.expired.Add(row); err != nil {
			return err
		}
		retained.Expired++
		retained.Bytes += l.Length
	}
	return nil
}

// anyDown reports whether a take-down of anything of the host is in force. Such
// a host loses no lines: what is shown of it may change with the take-down's end.
func (s tombstones) anyDown(key string) bool {
	return slices.ContainsFunc(s[key], func(t Tombstone) bool { return t.Act == TakeDown })
}

// publishedOfRow gives when a line was published without decoding all of it.
func publishedOfRow(row []byte) (time.Time, error) {
	const name = `"published":"`
	_, rest, found := bytes.Cut(row[:min(len(row), 512)], []byte(name))
	text, _, ended := bytes.Cut(rest, []byte(`"`))
	if found && ended {
		if t, err := time.Parse(time.RFC3339Nano, string(text)); err == nil {
			return t, nil
		}
	}
	var of struct{ Published time.Time }
	err := rowValue(row, &of)
	return of.Published, err
}
