package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
)

// Expendable reports, for each of the first n of a host's segments, whether nothing needs it any
// more. The segments are in the order of publication. Without the expendable ones, current has the
// same records of the same segments, and each revisit that has its page now still has it.
// Expendable reads the indexes of all segments and nothing else. It is for catalog.Retention.
//
// This holds for readers who see all, and for those to whom no access rule is open. While a rule
// hides some records of a segment, nothing is expendable: the end of the rule may show again what
// is older than other records that are visible.
func (x *Library) Expendable(ctx context.Context, segments []catalog.SegmentEntry, n int) ([]bool, error) {
	s := x.Segments
	nobody := &account.Account{Domains: []string{"*"}}
	veil, err := x.Rules.Veil(ctx, nobody, nobody.Scope())
	if err != nil {
		return nil, err
	}
	veil = veil.OfHost(segments[0].Host)
	parts := make([]archive.Part, len(segments))
	read, readCtx := errgroup.WithContext(ctx)
	read.SetLimit(4)
	for i, seg := range segments {
		read.Go(func() (err error) { // not through the cache, which is for readers
			parts[i].Index, err = s.ReadIndex(readCtx, seg)
			return err
		})
	}
	if err := read.Wait(); err != nil {
		return nil, err
	}
	k := &keeping{parts: parts, urls: spots(parts), stays: make([]bool, len(parts))}
	shown := slices.Clone(parts)
	for i, seg := range segments {
		if veil.Hides(seg) {
			shown[i].Cells = []int{}
		} else if veil.MayHide(seg) {
			return make([]bool, n), nil
		}
	}
	shownURLs := spots(shown)
	for i := n; i < len(parts); i++ {
		k.stays[i] = true
	}
	k.keepCurrent(k.urls)
	k.keepCurrent(shownURLs)
	k.keepOriginals()
	if err := errors.Join(k.check(k.urls), k.check(shownURLs)); err != nil {
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
	urls  map[string][]spot // each in the order of spots
	stays []bool            // by part
}

func (k *keeping) cell(s spot) *archive.Cell { return &k.parts[s.part].Index.Cells[s.cell] }

// keepCurrent keeps the segments on which current depends: for each URL, those of the records that
// decisive returns.
func (k *keeping) keepCurrent(urls map[string][]spot) {
	for _, records := range urls {
		for _, s := range decisive(k.parts, records) {
			k.stays[s.part] = true
		}
	}
}

// moment is a URL at a second.
type moment struct {
	url     string
	seconds int64
}

// keepOriginals keeps the answers to which revisits in kept segments may refer: all of the URL and
// second that a revisit names, and the latest answer before the revisit with its digest. A segment
// kept for such an answer may have revisits itself, so keepOriginals repeats this until it adds no
// segment.
func (k *keeping) keepOriginals() {
	at := make(map[moment][]spot)
	for url, records := range k.urls {
		for _, s := range records {
			if cell := k.cell(s); cell.Kind != archive.Revisit {
				when := moment{url, cell.Time.Unix()}
				at[when] = append(at[when], s)
			}
		}
	}
	for added := true; added; {
		added = false
		for url, records := range k.urls {
			full := make(map[string]spot, 1) // by digest, the latest so far
			for _, s := range records {
				cell := k.cell(s)
				if cell.Kind != archive.Revisit {
					full[cell.Digest] = s
					continue
				}
				if !k.stays[s.part] {
					continue
				}
				if original, ok := full[cell.Digest]; ok {
					added = k.keep(original) || added
				}
				for _, original := range at[moment{cmp.Or(cell.RefersTo, url), cell.RefersDate.Unix()}] {
					added = k.keep(original) || added
				}
			}
		}
	}
}

// keep keeps the segment of a record, and reports whether it was not kept before.
func (k *keeping) keep(s spot) (added bool) {
	added = !k.stays[s.part]
	k.stays[s.part] = true
	return added
}

// check fails if current would change without the expendable segments. They were chosen so that it
// cannot, but deleted segments cannot be brought back.
func (k *keeping) check(urls map[string][]spot) error {
	for url, records := range urls {
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
