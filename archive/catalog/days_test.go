package catalog_test

import (
	"testing"
	"time"

	"sheaf/archive/catalog"
)

// Editions are named by the service's day, and never by one that is over: not
// across midnight, the end of summer time, a clock set back or a move of the zone.
func TestEditionDays(t *testing.T) {
	at := func(text string) time.Time {
		tm, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return tm
	}
	zone := func(name string) *time.Location {
		z, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	tokyo, berlin, hawaii := zone("Asia/Tokyo"), zone("Europe/Berlin"), zone("Pacific/Honolulu")
	st := newStore(t)
	for i, step := range []struct {
		now  string
		zone *time.Location
		want string
	}{
		{"2026-10-24T14:59:59.999Z", tokyo, "20261024"},
		{"2026-10-24T15:00:00Z", tokyo, "20261025"},    // midnight
		{"2026-10-24T14:59:00Z", tokyo, "20261025-2"},  // stepped back over midnight
		{"2026-10-25T00:30:00Z", berlin, "20261025-3"}, // 02:30 of summer time
		{"2026-10-25T01:30:00Z", berlin, "20261025-4"}, // 02:30 again
		{"2026-10-25T23:30:00Z", berlin, "20261026"},   // the day had 25 hours
		{"2026-10-26T00:30:00Z", hawaii, "20261026-2"}, // 25 October there
		{"2026-01-01T00:00:00Z", tokyo, "20261026-3"},  // the battery is empty
		{"2026-10-27T03:00:00Z", tokyo, "20261027"},
		{"2026-10-26T03:00:00Z", tokyo, "20261027-2"},
	} {
		c := openWith(t, st, catalog.Options{Location: step.zone, Now: func() time.Time { return at(step.now) }})
		id := "b" + string(rune('a'+i))
		before := pin(t, c).Published()
		v := publish(t, c, publication(id, putSegment(t, st, "a.jp", id)))
		if v.Edition != step.want {
			t.Errorf("at %s in %v: edition %s, want %s", step.now, step.zone, v.Edition, step.want)
		}
		if v.Published.Before(before) {
			t.Errorf("at %s: published %v, before the version before it, of %v", step.now, v.Published, before)
		}
	}
	wantClean(t, st)
}

// A publication whose day ends while its run is built is named by the next day: who was told that
// the day is complete relies on that.
func TestDayEndsDuringPublication(t *testing.T) {
	midnight := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	asked := 0
	c := openWith(t, newStore(t), catalog.Options{Now: func() time.Time {
		asked++
		return midnight.Add(time.Duration(asked-2) * time.Second) // the first time it is 23:59:59
	}})
	asked = 0
	p := publication("b1", segment("a.jp", "b1"))
	v := publish(t, c, p)
	if v.Edition != "20261122" || v.Published.Before(midnight) {
		t.Errorf("edition %s of %v", v.Edition, v.Published)
	}
	s := pin(t, c)
	for day, want := range map[string]int{"20261121": 0, "20261122": 1, "2026112": 0, "": 0} {
		if got, err := s.DayEditions(t.Context(), day); err != nil || len(got) != want {
			t.Errorf("%q has %d editions, %v; want %d", day, len(got), err, want)
		}
	}
	if since, complete, err := s.Complete(t.Context(), "20261121"); err != nil || !complete || !since.Equal(v.Published) {
		t.Errorf("complete: %t since %v, %v", complete, since, err)
	}
	if _, complete, err := s.Complete(t.Context(), "20261122"); err != nil || complete {
		t.Errorf("the day of the newest edition is complete: %t, %v", complete, err)
	}
}
