package levelling

import (
	"testing"
	"time"

	"sheaf/internal/wire"
)

// A robot's end is told by the hours in which its window was open.
func TestEndsByTheWindow(t *testing.T) {
	monday := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	var w week
	for day := range 3 { // from Monday to Wednesday it was open from 02:00 to 06:00
		for hour := range 24 {
			hb := wire.Heartbeat{Cycle: 1, Phase: wire.PhaseClosed}
			if 2 <= hour && hour < 6 {
				hb.Phase = wire.PhaseCollecting
			}
			w = week(w.note(monday.AddDate(0, 0, day).Add(time.Duration(hour)*time.Hour), hb))
		}
	}
	for _, want := range []struct {
		from time.Time
		long time.Duration
		end  time.Time
	}{
		{monday.Add(2 * time.Hour), time.Hour, monday.Add(3 * time.Hour)},
		{monday.Add(3 * time.Hour), 5 * time.Hour, monday.AddDate(0, 0, 1).Add(4 * time.Hour)},
		{monday.AddDate(0, 0, 4), 30 * time.Minute, monday.AddDate(0, 0, 4).Add(150 * time.Minute)}, // Friday is like Wednesday
	} {
		if end, ok := w.end(want.from, want.long); !ok || !end.Equal(want.end) {
			t.Errorf("from %v, %v: ends %v, want %v", want.from, want.long, end, want.end)
		}
	}
	if at := w.opens(monday.Add(5 * time.Hour)); !at.Equal(monday.AddDate(0, 0, 1).Add(2 * time.Hour)) {
		t.Errorf("opens %v", at)
	}
	if at, ok := week("").end(monday, time.Hour); !ok || !at.Equal(monday.Add(time.Hour)) {
		t.Errorf("without knowledge: %v", at)
	}
}

// Figures that no robot can reach teach nothing.
func TestPulseIgnoresWhatCannotBe(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	p := pulse{at: at.UnixMilli(), phase: wire.PhaseCollecting, cycle: 1, pages: 10, worked: 3_600_000, transfers: 3, flow: 1000, rate: 1}
	for name, hb := range map[string]wire.Heartbeat{
		"transfer time":     {MS: 1 << 50, Pages: 20},
		"bytes":             {Bytes: 1 << 60, Pages: 20},
		"fewer than before": {Pages: 1},
	} {
		hb.Phase, hb.Cycle = wire.PhaseCollecting, 1
		n := p.next(at.Add(5*time.Minute), time.UTC, hb)
		if n.transfers != 3 || n.flow != 1000 || n.rate != 1 {
			t.Errorf("%s: %+v", name, n)
		}
	}
}
