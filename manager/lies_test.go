package manager_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
	"sheaf/manager/roster"
)

// A robot that tells what cannot be gets no hosts by it: its heartbeat is refused with a reason,
// and impossible speeds in logs and probes count for nothing.
func TestImpossibleFiguresCountForNothing(t *testing.T) {
	s := startWith(t, nil, levelling.Settings{Probes: 3})
	honest, liar := s.join("r1"), s.join("r2")
	s.add("http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/")
	for name, hb := range map[string]wire.Heartbeat{
		"a probe's bytes": {Probes: map[string]wire.ProbeResult{"a.test": {Bytes: -1}}}, "version": {Version: strings.Repeat("x", 200_000)},
		"bytes": {Bytes: 1 << 60}, "left": {Left: 1 << 55}, "host": {Hosts: map[string]wire.HostProgress{"a.test": {State: wire.HostDone, MS: 1 << 60}}},
	} {
		hb.Phase = wire.PhaseCollecting
		body, err := json.Marshal(hb)
		if err != nil {
			t.Fatal(err)
		}
		if resp, text := s.do("POST", "/v1/robots/r2/heartbeat", "r2", liar, body); resp.StatusCode != 400 || !strings.Contains(text, "bad_heartbeat") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, text)
		}
	}
	var lines strings.Builder
	for _, host := range []string{"a.test", "b.test", "c.test", "d.test"} {
		lines.WriteString(exchange(host, 100, 1000))
	}
	s.had("r1", "r2")
	s.submit("r1", honest, "1", lines.String())
	s.submit("r2", liar, "1", exchange("a.test", 1<<20, 0)+exchange("b.test", 100, 1000)) // 1 GiB in no time
	var plan levelling.Plan
	s.operator("POST", "/v1/admin/balance/rebalance", &plan)
	if plan.Measured != 5 {
		t.Errorf("planned from %d distances, want 5 without the impossible one", plan.Measured)
	}
	if _, mine := s.list("r2"); len(mine) > 2 {
		t.Errorf("the liar has %v", mine)
	}
}

// A robot draws no host to itself by telling what hosts cost that it neither has nor was asked to
// probe, and such costs are not kept.
func TestCostsOfOthersHostsCountForNothing(t *testing.T) {
	s := startWith(t, nil, levelling.Settings{})
	s.join("r1")
	s.add("http://a.test/", "http://b.test/")
	liar := s.join("r2")
	_, others := s.list("r1")
	_, own := s.list("r2")
	if len(others) != 1 || len(own) != 1 {
		t.Fatalf("r1 has %v, r2 has %v", others, own)
	}
	host := func(url string) string { return wireHost(t, url) }
	var lines strings.Builder
	for _, h := range []string{host(own[0]), host(others[0]), "invented.test", host(others[0])} {
		lines.WriteString(exchange(h, 12<<10, 1))
	}
	s.submit("r2", liar, "1", lines.String())
	for _, c := range []struct {
		host  string
		robot int
	}{{host(own[0]), 1}, {host(others[0]), 0}} {
		var of levelling.HostCosts
		s.operator("GET", "/v1/admin/hosts/"+c.host+"/costs", &of)
		if len(of.Robots) != c.robot {
			t.Errorf("%s has costs at %d robots, want %d", c.host, len(of.Robots), c.robot)
		}
	}
	lines.Reset()
	for n := range 11_000 {
		lines.WriteString(exchange(fmt.Sprintf("invented%d.test", n), 1, 1))
	}
	if resp, text := s.do("POST", "/v1/robots/r2/submitlog", "r2", liar, append([]byte("r2.2\n"), zip(lines.String())...)); resp.StatusCode != 400 || !strings.Contains(text, "bad_log") {
		t.Errorf("a log of invented hosts: %d %s", resp.StatusCode, text)
	}
}

// A robot tells nothing of the last visits to hosts that it never had, and fills no table with
// invented ones. A visit of long ago does not become one of the future.
func TestVisitsOfOthersHostsCountForNothing(t *testing.T) {
	s := start(t, nil)
	s.join("r1")
	s.add("http://a.test/", "http://b.test/")
	s.join("r2")
	_, others := s.list("r1")
	_, own := s.list("r2")
	if len(others) != 1 || len(own) != 1 {
		t.Fatalf("r1 has %v, r2 has %v", others, own)
	}
	theirs, mine := wireHost(t, others[0]), wireHost(t, own[0])
	ended := wire.HostProgress{State: wire.HostDone, Status: 200, Pages: 7, AgoMS: 1 << 50}
	for range 2 {
		_, err := s.m.Heartbeat(t.Context(), "r2", wire.Heartbeat{Phase: wire.PhaseCollecting, Cycle: 1,
			Hosts:      map[string]wire.HostProgress{theirs: ended, mine: ended, "invented.test": ended},
			Unanswered: map[string]string{theirs: "dns", "invented2.test": "timeout"},
		})
		testkit.Must(t, err)
	}
	var rows int
	testkit.Must(t, s.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM visits`).Scan(&rows))
	var of hosts.Host
	if s.operator("GET", "/v1/admin/hosts/"+theirs, &of); rows != 1 || len(of.Visits) != 0 {
		t.Errorf("%d visits are noted, want 1; of r1's host %+v", rows, of.Visits)
	}
	s.operator("GET", "/v1/admin/hosts/"+mine, &of)
	if len(of.Visits) != 1 || of.Visits[0].Pages != 7 || !of.Visits[0].At.Before(of.Created) {
		t.Errorf("of its own host: %+v", of.Visits)
	}
}

// While a robot's log is being read, another one of the same robot is refused, and those of others
// are not.
func TestOneLogOfARobotAtATime(t *testing.T) {
	s := startWith(t, nil, levelling.Settings{})
	first, second := s.join("r1"), s.join("r2")
	s.add("http://a.test/", "http://b.test/")
	log := func(robot, date string) []byte {
		return append([]byte(robot+"."+date+"\n"), zip(exchange("a.test", 1, 1))...)
	}
	whole := log("r1", "1")
	body, rest := io.Pipe()
	req, err := http.NewRequest("POST", s.URL+"/v1/robots/r1/submitlog", body)
	testkit.Must(t, err)
	req.SetBasicAuth("r1", first)
	answered := make(chan int)
	go func() {
		resp, err := s.Client().Do(req)
		if err != nil {
			answered <- 0
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	rest.Write(whole[:len(whole)-4])
	testkit.Until(t, "the log is being read", func() bool {
		resp, text := s.do("POST", "/v1/robots/r1/submitlog", "r1", first, log("r1", "2"))
		return resp.StatusCode == 429 && resp.Header.Get("Retry-After") != "" && strings.Contains(text, `"busy"`)
	})
	s.submit("r2", second, "1", exchange("b.test", 1, 1))
	robots, err := s.m.Roster.Robots(t.Context())
	testkit.Must(t, err)
	for _, r := range robots {
		if turnedAway := r.Name == "r1"; strings.Contains(r.Refused.Why, "one after the other") != turnedAway || r.Refused.Since.IsZero() == turnedAway {
			t.Errorf("operators see of %s: %+v", r.Name, r.Refused)
		}
	}
	rest.Write(whole[len(whole)-4:])
	rest.Close()
	if status := <-answered; status != 200 {
		t.Errorf("the first log is answered with %d", status)
	}
	s.submit("r1", first, "3", exchange("a.test", 1, 1))
}

// Operators see why a robot is turned away, and since when: since the first of those times that
// came within an hour of each other. A day later they see nothing of it any more. A minute has one
// write.
func TestRefusalsAreNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, time.Hour, "r1")
		begun := time.Now()
		for _, c := range []struct {
			after time.Duration // the call before
			why   string
			want  roster.Refusal
		}{
			{0, "a", roster.Refusal{Why: "a", Since: begun, At: begun}},
			{59 * time.Second, "b", roster.Refusal{Why: "a", Since: begun, At: begun}},
			{time.Second, "b", roster.Refusal{Why: "b", Since: begun, At: begun.Add(time.Minute)}},
			{59 * time.Minute, "c", roster.Refusal{Why: "c", Since: begun, At: begun.Add(time.Hour)}},
			{61 * time.Minute, "d", roster.Refusal{Why: "d", Since: begun.Add(121 * time.Minute), At: begun.Add(121 * time.Minute)}},
			{24 * time.Hour, "", roster.Refusal{}},
		} {
			time.Sleep(c.after)
			if c.why != "" {
				f.Refused(t.Context(), "r1", c.why)
			}
			robots, err := f.Roster.Robots(t.Context())
			testkit.Must(t, err)
			if got := robots[0].Refused; got.Why != c.want.Why || !got.Since.Equal(c.want.Since) || !got.At.Equal(c.want.At) {
				t.Errorf("after %q: %+v, want %+v", c.why, got, c.want)
			}
		}
	})
}
