package board

import (
	"testing"

	"sheaf/internal/webpage"
	"sheaf/internal/wire"
)

// What a robot is doing is said in the reader's language.
func TestPhaseName(t *testing.T) {
	ja := page{Page: webpage.Page{Lang: "ja"}}
	for phase, want := range map[wire.Phase]string{
		wire.PhaseStarting: "準備中", wire.PhaseCollecting: "収集中", wire.PhaseClosed: "時間外",
		wire.PhaseIdle: "手空き", wire.PhaseResting: "待機中", wire.PhasePaused: "一時停止中", "": "–",
	} {
		if got := ja.PhaseName(string(phase)); got != want {
			t.Errorf("%q is %q, want %q", phase, got, want)
		}
	}
}
