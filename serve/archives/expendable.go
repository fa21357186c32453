package archives

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/visible"
)

// Expendable reports, for each of the first n of a host's segments, whether nothing needs it any
// more. The segments are in the order of publication. Without the expendable ones, current has the
// same records of the same segments, and every revisit in the others still has the page that it
// refers to, if it has it now. Expendable reads the indexes of all segments and nothing else. It is
// for catalog.Retention.
func Expendable(ctx context.Context, store *visible.Segments, segments []catalog.SegmentEntry, n int) ([]bool, error) {
	parts := make([]archive.Part, len(segments))
	read, readCtx := errgroup.WithContext(ctx)
	read.SetLimit(4)
	for i, seg := range segments {
		read.Go(func() (err error) { // not through the cache, which is for readers
			parts[i].Index, err = store.ReadIndex(readCtx, seg)
			return err
		})
	}
	if err := read.Wait(); err != nil {
		return nil, fmt.Errorf("index of %s: %w", segments[0].Host, err)
	}
	k := &keeping{parts: parts, urls: spots(parts), stays: make([]bool, len(parts))}
	for i := n; i < len(parts); i++ {
		k.stays[i] = true
	}
	k.keepCurrent()
	k.keepOriginals()
	if err := k.check(); err != nil {
		return nil, err
	}
	expendable := make([]bool, n)
	for i := range expendable {
		expendable[i] = !k.stays[i]
	}
	return expendable, nil
}

// keeping finds the segments of a host that must stay.
type keeping struct {
	parts []archive.Part
	urls  map[string][]spot // each in the order of time, then of publication
	stays []bool            // by part
}

func (k *keeping) cell(s spot) *archive.Cell { return &k.parts[s.part].Index.Cells[s.cell] }

// keepCurrent keeps what makes current what it is. For each URL these are the record that stands
// for it, the revisit that confirms that record, and, if a temporary failure stands for the URL,
// the answer that the page is gone.
func (k *keeping) keepCurrent() {
	for _, records := range k.urls {
		for _, s := range decisive(k.parts, records) {
			k.stays[s.part] = true
		}
	}
}

// keepOriginals keeps the pages that revisits in the other kept segments refer to. A segment that
// is kept for one of them may contain revisits itself, so it repeats this until no segment is
// added.
func (k *keeping) keepOriginals() {
	for added := true; added; {
		added = false
		for _, records := range k.urls {
			full := make(map[string]spot, 1) // by digest, the latest so far
			at := make(map[time.Time]spot, len(records))
			for _, s := range records {
				cell := k.cell(s)
				if cell.Kind == archive.Revisit && k.stays[s.part] {
					original, ok := full[cell.Digest]
					added = k.keep(original, ok) || added
					original, ok = at[cell.RefersDate.UTC()]
					added = k.keep(original, ok) || added
				}
				if cell.Kind != archive.Revisit {
					full[cell.Digest] = s
				}
				at[cell.Time.UTC()] = s
			}
		}
	}
}

// keep keeps the segment of a record, if there is one, and reports whether it was not kept before.
func (k *keeping) keep(s spot, ok bool) bool {
	if !ok || k.stays[s.part] {
		return false
	}
	k.stays[s.part] = true
	return true
}

// check computes current without the expendable segments. It must be the same, by the way the
// segments were chosen; but what is deleted cannot be brought back.
func (k *keeping) check() error {
	for url, records := range k.urls {
		var left []spot
		for _, s := range records {
			if k.stays[s.part] {
				left = append(left, s)
			}
		}
		was, wasThere := standing(k.parts, records)
		is, isThere := standing(k.parts, left)
		if was != is || wasThere != isThere {
			return fmt.Errorf("%s would change in current", url)
		}
	}
	return nil
}
