package revisit

import (
	"testing"
	"time"

	"sheaf/robotd/frontier"
)

// A host too large for its nights loses no page for ever, though each night brings new ones that
// come before it in the order of keys.
func TestNoPageStarves(t *testing.T) {
	const (
		known, fresh, room = 1000, 30, 60
		nights             = 60
	)
	ages := make([]float64, known)
	since := make([]int, fresh) // nights for which a new page has waited
	longest, longestNew := 0.0, 0
	for night := range nights {
		var p pressing
		pages := make([]Page, 0, known+fresh)
		for i := range fresh {
			p.found = append(p.found, i)
			pages = append(pages, Page{})
		}
		for i := range ages {
			ages[i]++
			longest = max(longest, ages[i])
			p.overdue = append(p.overdue, fresh+i)
			pages = append(pages, Page{Age: ages[i]})
		}
		turns := make([]frontier.Turn, len(pages))
		p.ration(pages, turns, room, time.Unix(0, 0).AddDate(0, 0, night))
		first := 0
		for i, turn := range turns {
			switch {
			case turn == frontier.Later:
				t.Fatalf("page %d has no turn at all", i)
			case turn != frontier.First && i < fresh:
				since[i]++
				longestNew = max(longestNew, since[i])
				continue
			case turn != frontier.First:
				continue
			case i < fresh:
				since[i] = 0 // another page is found, with a key like it
			default:
				ages[i-fresh] = 0
			}
			first++
		}
		if first != room {
			t.Fatalf("night %d: %d pages go first, want %d", night, first, room)
		}
	}
	if most := float64(known)/(room-room*fresh/(known+fresh)-1) + 2; longest > most {
		t.Errorf("a page waited %v nights, want at most %v", longest, most)
	}
	if longestNew >= nights-1 {
		t.Errorf("a new page waited %d nights of %d", longestNew, nights)
	}
}

// Of new pages that do not all fit into a night, most are near the start of the host, and the
// others come from anywhere: after some nights every depth has had its turn.
func TestNewPagesNearTheStartGoFirst(t *testing.T) {
	const depths, each, room = 10, 40, 80
	var p pressing
	var pages []Page
	for i := range depths * each {
		p.found = append(p.found, i)
		pages = append(pages, Page{Depth: i % depths}) // in the order of keys, which says nothing about depth
	}
	had := make([]int, depths)
	for night := range 30 {
		turns := make([]frontier.Turn, len(pages))
		p.ration(pages, turns, room, time.Unix(0, 0).AddDate(0, 0, night))
		near := 0
		for i, turn := range turns {
			if turn == frontier.First {
				had[pages[i].Depth]++
				if pages[i].Depth < 2 {
					near++
				}
			}
		}
		if near < room*3/4 {
			t.Errorf("night %d: %d of %d pages are within a link of the start", night, near, room)
		}
	}
	for depth, n := range had {
		if n == 0 {
			t.Errorf("no page at depth %d had a turn: %v", depth, had)
		}
	}
}

func TestRationOfOneKind(t *testing.T) {
	for _, p := range []pressing{{found: []int{0, 1, 2}}, {overdue: []int{0, 1, 2}}} {
		for room := -1; room < 5; room++ {
			turns := make([]frontier.Turn, 3)
			p.ration(make([]Page, 3), turns, room, time.Unix(1e9, 0))
			first := 0
			for _, turn := range turns {
				if turn == frontier.First {
					first++
				}
			}
			if want := min(max(room, 1), 3); first != want {
				t.Errorf("room for %d: %d go first, want %d", room, first, want)
			}
		}
	}
}
