package catalog

import (
	"context"
	"fmt"
	"iter"
)

// Entries walks all that is published of the hosts whose keys, each with a blank behind it,
// begin with surtPrefix: host by host in the order of their keys, each host's in the order
// of publication. It is for who reads all of it once, and holds a block of each run.
func (s *Snapshot) Entries(ctx context.Context, surtPrefix string) iter.Seq2[SegmentEntry, error] {
	return func(yield func(SegmentEntry, error) bool) {
		runs, err := s.live()
		if err != nil {
			yield(SegmentEntry{}, err)
			return
		}
		for l, err := range s.entriesOf(ctx, pass(ctx, runs, tableHost+surtPrefix)) {
			if err != nil {
				err = fmt.Errorf("catalog: lines under %q: %w", surtPrefix, err)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}
