package manager_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/roster"
)

// What is wrong with a robot is told by each of its lists: what it says itself, its clock, and that
// nothing is heard of it. A robot with which nothing is wrong, or that has said that it goes, has
// no trouble.
func TestRobotsTroublesAreTold(t *testing.T) {
	s := start(t, nil)
	hours := func(h int64) *wire.Clock { return &wire.Clock{OffsetMS: h * 3_600_000, ErrorMS: 500} }
	for name, hb := range map[string]wire.Heartbeat{
		"ahead":  {Clock: hours(2)},
		"behind": {Clock: hours(-2)},
		"full":   {Troubles: map[wire.Trouble]string{wire.TroubleDisk: "3 MB are free"}},
		"lonely": {Troubles: map[wire.Trouble]string{wire.TroubleHosts: "9 of 10 hosts cannot be reached"}},
		"vague":  {Clock: &wire.Clock{OffsetMS: 90_000, ErrorMS: 40_000}},
		"well":   {Clock: &wire.Clock{OffsetMS: 900, ErrorMS: 10}},
		"silent": {}, "gone": {},
	} {
		s.join(name)
		hb.Phase = wire.PhaseIdle
		_, err := s.m.Heartbeat(t.Context(), name, hb)
		testkit.Must(t, err)
	}
	testkit.Must(t, s.Unsubscribe(t.Context(), "gone"))
	for _, set := range []string{`heartbeats SET at = ? WHERE robot`, `robots SET seen = ? WHERE name`} {
		_, err := s.db.ExecContext(t.Context(), `UPDATE `+set+` IN ('silent', 'gone')`, time.Now().Add(-time.Hour).UnixMilli())
		testkit.Must(t, err)
	}
	want := map[string]string{
		"ahead": "clock 2h0m0s ahead", "behind": "clock 2h0m0s behind", "full": "disk 3 MB are free",
		"lonely": "hosts 9 of 10", "silent": "silent ", "vague": "", "well": "", "gone": "",
	}
	all, err := s.Robots(t.Context())
	testkit.Must(t, err)
	quick, err := s.Summaries(t.Context())
	testkit.Must(t, err)
	var api struct{ Robots []roster.Robot }
	s.operator("GET", "/v1/admin/robots", &api)
	for what, list := range map[string][]roster.Robot{"list": all, "summaries": quick, "API": api.Robots} {
		if len(list) != len(want) {
			t.Errorf("%s: %d robots", what, len(list))
		}
		for _, r := range list {
			said := ""
			for _, trouble := range r.Troubles {
				said += fmt.Sprintf("%s %s", trouble.Kind, trouble.Detail)
				if trouble.Since.IsZero() {
					t.Errorf("%s: %s: %s since %v", what, r.Name, trouble.Kind, trouble.Since)
				}
			}
			if (said == "") != (want[r.Name] == "") || !strings.HasPrefix(said, want[r.Name]) {
				t.Errorf("%s: %s: %q, want %q", what, r.Name, said, want[r.Name])
			}
		}
	}
	_, err = s.m.Heartbeat(t.Context(), "ahead", wire.Heartbeat{Phase: wire.PhaseIdle, Clock: &wire.Clock{}})
	testkit.Must(t, err)
	all, err = s.Robots(t.Context())
	testkit.Must(t, err)
	if len(all[0].Troubles) != 0 {
		t.Errorf("after its clock was set: %+v", all[0].Troubles)
	}
}
