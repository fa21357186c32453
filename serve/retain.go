package serve

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// Expendable tells which of the first n of a host's segments, given in the order
// of publication, nothing needs any more: without them `current` holds the same
// records of the same segments, and what a revisit in a segment that stays refers
// to stays, too, as far as it is there now. It reads the indexes of all of them, and
// no more; it is a catalog.Retention's.
func (l *Library) Expendable(ctx context.Context, lines []catalog.SegmentEntry, n int) ([]bool, error) {
	parts := make([]archive.Part, len(lines))
	read, readCtx := errgroup.WithContext(ctx)
	read.SetLimit(4)
	for i, line := range lines {
		read.Go(func() (err error) { // past the cache, which is the readers'
			parts[i].Index, err = archive.ReadIndexAt(readCtx, l.source(line), line.IndexOffset, line.IndexLength)
			return err
		})
	}
	if err := read.Wait(); err != nil {
		return nil, fmt.Errorf("index of %s: %w", lines[0].Host, err)
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

// keeping finds the segments of a host that have to stay.
type keeping struct {
	parts []archive.Part
	urls  map[string][]spot // each in the order of time, then of publication
	stays []bool            // by part
}

func (k *keeping) cell(s spot) *archive.Cell { return &k.parts[s.part].Index.Cells[s.cell] }

// keepCurrent keeps what makes current what it is: of each URL the record that
// stands for it, the one by which it does (itself, or a revisit), and, where a
// passing failure stands for it, the answer that said that the page is gone.
func (k *keeping) keepCurrent() {
	for _, records := range k.urls {
		for _, s := range decisive(k.parts, records) {
			k.stays[s.part] = true
		}
	}
}

// keepOriginals keeps what the revisits in segments that stay refer to. A segment
// that is kept for one may hold revisits itself, so it goes round until none is added.
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

// keep keeps the segment of a record that is there, and reports whether that is new.
func (k *keeping) keep(s spot, ok bool) bool {
	if !ok || k.stays[s.part] {
		return false
	}
	k.stays[s.part] = true
	return true
}

// check computes current without what would go. That it is the same follows from
// how the segments were chosen; but what is deleted does not come back.
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
