package library

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"sheaf/archive"
)

// spot is one cell of one part.
type spot struct {
	part, cell int
	time       time.Time
	rank       int // 1: a page, or a revisit of one; 0: another answer
}

// latest chooses, from parts in the order of publication, the record that stands for each URL now.
// It goes through a URL's records in the order of fetching. Of two that were fetched in the same
// instant, the one published later counts as later. Within one second a page counts as later than
// another answer: WARC/1.0 has no fractions, and crawlers ask again at once.
//
//   - A full record stands for the URL from then on. A page that broke off replaces a whole page
//     only after three nights in a row in which the page broke off. What a limit of the robot has
//     cut counts as whole.
//   - A revisit confirms the record that it refers to, which is chosen in its place. A revisit is
//     chosen itself only if it says that the page is gone and its original is not here.
//   - An answer that the page is gone (404, 410) or has moved for good (301, 308) takes its place:
//     the page belongs to the past. In a tar such a record is no file.
//   - Any other answer without a file (a temporary redirect, a refusal, a server's error) says
//     nothing about the page, which stays. It stands for the URL only if there is no page.
//
// The chosen records stay in order of publication, in the Cells of the same parts.
func latest(parts []archive.Part) []archive.Part {
	current := slices.Clone(parts)
	for p := range current {
		current[p].Cells = []int{}
	}
	for _, records := range spots(parts) {
		if s, ok := standing(parts, records); ok {
			current[s.part].Cells = append(current[s.part].Cells, s.cell)
		}
	}
	for p := range current {
		slices.Sort(current[p].Cells)
	}
	return current
}

// spots returns the records of parts by URL. Those of one URL are in the order in which latest goes
// through them.
func spots(parts []archive.Part) map[string][]spot {
	urls := make(map[string][]spot)
	for p, part := range parts {
		for c := range chosen(part) {
			cell := &part.Index.Cells[c]
			s := spot{p, c, cell.Time, 0}
			if cell.Kind == archive.Page || cell.Kind == archive.Revisit && !gone(cell.Status) {
				s.rank = 1
			}
			urls[cell.URL] = append(urls[cell.URL], s)
		}
	}
	for _, records := range urls {
		slices.SortStableFunc(records, func(a, b spot) int {
			return cmp.Or(cmp.Compare(a.time.Unix(), b.time.Unix()), cmp.Compare(a.rank, b.rank), a.time.Compare(b.time))
		})
	}
	return urls
}

// standing returns the record of a URL that stands for it now. ok is false if all records are
// revisits of pages that are not here.
func standing(parts []archive.Part, records []spot) (now spot, ok bool) {
	d := decisive(parts, records)
	if len(d) == 0 {
		return spot{}, false
	}
	return d[0], true
}

// decisive returns the record that stands for a URL now, followed by the records that make it so.
// Without one of them another record might stand for the URL, now or once later ones have come; no
// other record matters.
func decisive(parts []archive.Part, records []spot) (by []spot) {
	isPage := false
	var away []spot                  // the last answer that the page is gone, if any
	var cuts []visit                 // to pages that broke off, one a night, since a whole page stood
	full := make(map[string]spot, 1) // by digest: pages
	lost := make(map[string]spot)    // by digest: answers that the page is gone
	cellOf := func(s spot) *archive.Cell { return &parts[s.part].Index.Cells[s.cell] }
	stand := func(page, s spot) {
		switch {
		case !cellOf(page).Cut():
			cuts = nil
		case isPage && !cellOf(by[0]).Cut():
			if cuts = another(cuts, visit{page, s}); len(cuts) < enoughCuts {
				return
			}
		}
		by, isPage = visit{page, s}.records(by[:0]), true
	}
	for _, s := range records {
		switch cell := cellOf(s); {
		case cell.Kind == archive.Page:
			full[cell.Digest] = s
			stand(s, s)
		case cell.Kind == archive.Revisit && gone(cell.Status):
			away = away[:0]
			if original, found := lost[cell.Digest]; found {
				away = append(away, original)
			}
			away = append(away, s)
			by, isPage, cuts = append(by[:0], away...), false, nil
		case cell.Kind == archive.Revisit:
			if original, found := full[cell.Digest]; found {
				stand(original, s)
			}
		case gone(cell.Status):
			by, isPage, cuts = append(by[:0], s), false, nil
			away, lost[cell.Digest] = append(away[:0], s), s
		case !isPage:
			by = append(append(by[:0], s), away...)
		}
	}
	for _, v := range cuts {
		by = v.records(by)
	}
	return by
}

// visit is a page and the record that says that it was there: the page itself, or a revisit of it.
type visit struct{ page, by spot }

// records appends the visit's one or two records.
func (v visit) records(to []spot) []spot {
	if to = append(to, v.page); v.by != v.page {
		to = append(to, v.by)
	}
	return to
}

// After enoughCuts nights in which a page broke off, what came of it replaces the whole page.
// Visits that lie at least night apart are of different nights.
const (
	enoughCuts = 3
	night      = 12 * time.Hour
)

// another appends v, a visit to a page that broke off, unless the last of cuts is of the same
// night.
func another(cuts []visit, v visit) []visit {
	if n := len(cuts); n > 0 && v.by.time.Sub(cuts[n-1].by.time) < night {
		return cuts
	}
	return append(cuts, v)
}

// needed returns the sequence numbers of the segments on which the archive's latest versions
// depend; of all its segments if it has no versions.
func (a Archive) needed(ctx context.Context) (numbers []int64, err error) {
	parts, err := a.readParts(ctx)
	if err != nil {
		return nil, err
	}
	stays := make([]bool, len(parts))
	for _, records := range spots(parts) {
		for _, s := range decisive(parts, records) {
			stays[s.part] = true
		}
	}
	none := !slices.Contains(stays, true)
	for i, seg := range a.segments {
		if stays[i] || none {
			numbers = append(numbers, seg.Seq)
		}
	}
	return numbers, nil
}

// only returns the archive with only the segments of these sequence numbers, which must ascend. It
// reports whether there are any numbers and the archive has all of them.
func (a Archive) only(numbers []int64) (Archive, bool) {
	whole := a.segments
	a.segments = nil
	for _, seg := range whole {
		if n := len(a.segments); n < len(numbers) && seg.Seq == numbers[n] {
			a.segments = append(a.segments, seg)
		}
	}
	return a, len(numbers) > 0 && len(a.segments) == len(numbers)
}

// gone reports whether a status says that a page is no longer at its URL.
func gone(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusGone, http.StatusMovedPermanently, http.StatusPermanentRedirect:
		return true
	}
	return false
}
