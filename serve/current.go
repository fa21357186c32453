package serve

import (
	"net/http"
	"slices"
	"time"

	"sheaf/archive"
)

// spot is one cell of one part.
type spot struct {
	part, cell int
	time       time.Time
}

// latest chooses, of parts in order of publication, the record that stands for
// each URL now. It follows a URL's records by the time of their fetch; of two
// fetched in the same instant, the one published later counts as later:
//
//   - a full record stands for the URL from then on;
//   - a revisit confirms the full record that it refers to, and is not itself taken;
//   - an answer that the page is not there any more (404, 410) or has moved for
//     good (301, 308) takes its place: the page is in the history, no longer in
//     the present. In a tar such a record is no file;
//   - any other answer without a file (a temporary redirect, a refusal, a server's
//     error) says nothing about the page, which stays; it stands for the URL only
//     where there is no page.
//
// The chosen records stay in order of publication, in the Cells of the same parts.
func latest(parts []archive.Part) []archive.Part {
	urls := make(map[string][]spot)
	for p, part := range parts {
		for c := range chosen(part) {
			cell := &part.Index.Cells[c]
			urls[cell.URL] = append(urls[cell.URL], spot{p, c, cell.Time})
		}
	}
	current := slices.Clone(parts)
	for p := range current {
		current[p].Cells = []int{}
	}
	for _, records := range urls {
		if s, ok := standing(parts, records); ok {
			current[s.part].Cells = append(current[s.part].Cells, s.cell)
		}
	}
	for p := range current {
		slices.Sort(current[p].Cells)
	}
	return current
}

// standing returns which of one URL's records stands for it now. There is none
// where all are revisits of what is not here.
func standing(parts []archive.Part, records []spot) (now spot, ok bool) {
	slices.SortStableFunc(records, func(a, b spot) int { return a.time.Compare(b.time) })
	isPage := false
	full := make(map[string]spot, 1) // by digest
	for _, s := range records {
		switch cell := &parts[s.part].Index.Cells[s.cell]; cell.Kind {
		case archive.Page:
			full[cell.Digest] = s
			now, ok, isPage = s, true, true
		case archive.Revisit:
			if original, found := full[cell.Digest]; found {
				now, ok, isPage = original, true, true
			}
		case archive.Response:
			if gone(cell.Status) || !isPage {
				now, ok, isPage = s, true, false
			}
		}
	}
	return now, ok
}

// gone reports whether a status says that the page is no longer at its URL.
func gone(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusGone, http.StatusMovedPermanently, http.StatusPermanentRedirect:
		return true
	}
	return false
}
