package catalog

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/sortedrun"
)

// summary sums up a run's entries of one host. A run has a summary for each of its hosts, so that
// directories and lists of hosts need not read the entries. Times are in nanoseconds since 1970,
// because numbers are parsed faster than text; 0 means no time.
type summary struct {
	Host      string `json:"host"`
	Edition   string `json:"edition"` // of the last entry
	Published int64  `json:"published"`
	First     int64  `json:"first"`
	Last      int64  `json:"last"`
	Segments  int64  `json:"segments"`
	Editions  int64  `json:"editions"`
	Records   int64  `json:"records"`
	Bytes     int64  `json:"bytes"`

	seq int64 // of the last entry; part of the row's key
}

func summaryOf(l SegmentEntry) summary {
	return summary{
		Host: l.Host, Edition: l.Edition, Published: nanoseconds(l.Published), First: nanoseconds(l.First), Last: nanoseconds(l.Last),
		Segments: 1, Editions: 1, Records: l.Records, Bytes: l.Length, seq: l.Seq,
	}
}

// add adds the summary of later entries of the same host.
func (s *summary) add(later summary) {
	editions := s.Editions + later.Editions
	if s.Edition == later.Edition {
		editions--
	}
	if s.First == 0 || later.First != 0 && later.First < s.First {
		s.First = later.First
	}
	s.Last = max(s.Last, later.Last)
	s.Edition, s.Published, s.seq = later.Edition, later.Published, later.seq
	s.Segments, s.Editions = s.Segments+later.Segments, editions
	s.Records, s.Bytes = s.Records+later.Records, s.Bytes+later.Bytes
}

func (s *summary) key() string { return tableSummary + Key(s.Host) + " " + seqKey(s.seq) }

func (s *summary) info() HostInfo {
	return HostInfo{
		Host: s.Host, SURT: Key(s.Host), Editions: int(s.Editions), Segments: int(s.Segments), Records: s.Records, Bytes: s.Bytes,
		First: fromNanoseconds(s.First), Last: fromNanoseconds(s.Last), Latest: s.Edition, Published: fromNanoseconds(s.Published),
	}
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanoseconds(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// summaryOfRow decodes a row of the table of summaries. It takes seq from the row's key.
func summaryOfRow(row []byte) (s summary, err error) {
	s, ok := scanSummary(string(row[len(rowKey(row)):]))
	if !ok {
		s = summary{}
		if err := rowValue(row, &s); err != nil {
			return s, err
		}
	}
	s.seq, err = seqOfRow(row)
	return s, err
}

// scanSummary parses the JSON of a summary, after a space, exactly as a run has it. For any other
// text, ok is false; see scanEntry.
func scanSummary(text string) (s summary, ok bool) {
	in := sortedrun.LineScanner{Rest: text}
	ok = in.Text(` {"host":`, &s.Host) && in.Text(`,"edition":`, &s.Edition) && in.Number(`,"published":`, &s.Published) &&
		in.Number(`,"first":`, &s.First) && in.Number(`,"last":`, &s.Last) && in.Number(`,"segments":`, &s.Segments) &&
		in.Number(`,"editions":`, &s.Editions) && in.Number(`,"records":`, &s.Records) && in.Number(`,"bytes":`, &s.Bytes)
	return s, ok && in.Rest == "}"
}

// summaries walks the hosts whose keys begin with prefix and are at or behind start. It sums up
// each host over all runs. table is the table to read: that of summaries, or that of entries to
// check the summaries.
func summaries(ctx context.Context, runs []*run, table, prefix, start string) iter.Seq2[summary, error] {
	decode := summaryOfRow
	if table == tableHost {
		decode = func(row []byte) (summary, error) {
			l, err := entryOfRow(row)
			return summaryOf(l), err
		}
	}
	return func(yield func(summary, error) bool) {
		var s summary // of the host that is read
		for next, err := range decoded(scanFrom(ctx, runs, table+prefix, table+start), decode) {
			if err != nil {
				yield(summary{}, err)
				return
			}
			if s.Host == next.Host {
				s.add(next)
				continue
			}
			if s.Host != "" && !yield(s, nil) {
				return
			}
			s = next
		}
		if s.Host != "" {
			yield(s, nil)
		}
	}
}

// putSummaries adds a summary of each host in the runs that w merges.
func (w *runWriter) putSummaries(ctx context.Context, runs []*run) error {
	for s, err := range summaries(ctx, runs, tableSummary, "", "") {
		if err != nil {
			return err
		}
		if err := w.put(s.key(), s); err != nil {
			return err
		}
	}
	return nil
}

// appendSummary appends, as text, what an unpublished entry adds to its host's summary.
func appendSummary(dst []byte, l SegmentEntry) []byte {
	return fmt.Appendf(dst, "%d %d %d %d %s", nanoseconds(l.First), nanoseconds(l.Last), l.Records, l.Length, l.Host)
}

// parseSummary parses the text that appendSummary appends.
func parseSummary(text string) (s summary, err error) {
	for _, n := range []*int64{&s.First, &s.Last, &s.Records, &s.Bytes} {
		var number string
		number, text, _ = strings.Cut(text, " ")
		if *n, err = strconv.ParseInt(number, 10, 64); err != nil {
			return s, err
		}
	}
	s.Host, s.Segments, s.Editions = text, 1, 1
	return s, nil
}
