package manager_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/levelling"
)

// submit submits a log of the given lines.
func (s *service) submit(robot, secret, date, lines string) {
	s.t.Helper()
	body := append([]byte(robot+"."+date+"\n"), zip(lines)...)
	if resp, text := s.do("POST", "/v1/robots/"+robot+"/submitlog", robot, secret, body); resp.StatusCode != 200 {
		s.t.Fatalf("log: %d %s", resp.StatusCode, text)
	}
}

// had lets robots have had all hosts that there are, so that what these cost them counts.
func (s *service) had(robots ...string) {
	s.t.Helper()
	for _, robot := range robots {
		_, err := s.db.ExecContext(s.t.Context(), `
			INSERT INTO assignments (host, robot, from_generation, to_generation, ended) SELECT name, CAST(? AS TEXT), 0, 0, 1 FROM hosts WHERE true ON CONFLICT DO NOTHING`, robot)
		testkit.Must(s.t, err)
	}
}

func exchange(host string, kb, ms int) string {
	return fmt.Sprintf("\"http://%s/\"100, %d, %d, \"HTTP/1.1 200 OK\"\n", host, kb*1024, ms)
}

func (s *service) operator(method, path string, answer any) {
	s.t.Helper()
	resp, body := s.do(method, path, "", "", nil, "X-Operator", "1")
	if err := json.Unmarshal([]byte(body), answer); resp.StatusCode != 200 || err != nil {
		s.t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, body, err)
	}
}

// Costs are kept by the hour in the log, or else in the server's Date. An hour that differs much
// from the others does not count for the distance, and is shown as an outlier.
func TestCostsByTheHourWithOutliersApart(t *testing.T) {
	s := start(t, nil)
	secret := s.join("r1")
	s.add("http://a.test/")
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -6)
	for n, ms := range []int{1000, 1100, 10_000, 900, 1000} { // 100 KB a night
		at := day.AddDate(0, 0, n).Add(17 * time.Hour)
		lines := wire.TimeComment(at) + exchange("a.test", 60, ms*6/10) + wire.TimeComment(at.Add(20*time.Minute)) + exchange("a.test", 40, ms*4/10)
		if n == 4 {
			lines = fmt.Sprintf("\"http://a.test/\"100, %d, %d, \"HTTP/1.1 200 OK\\r\\nDate: %s\"\n", 100*1024, ms, at.Format("Mon, 02 Jan 2006 15:04:05 GMT"))
		}
		s.submit("r1", secret, fmt.Sprint(n), lines)
	}
	var found levelling.HostCosts
	s.operator("GET", "/v1/admin/hosts/a.test/costs", &found)
	if len(found.Robots) != 1 || len(found.Robots[0].Hours) != 5 {
		t.Fatalf("%+v", found)
	}
	c := found.Robots[0]
	if math.Abs(c.Distance-10) > 0.5 || c.KB != 100 {
		t.Errorf("%.2f ms/KB and %.0f KB a night, want 10 and 100", c.Distance, c.KB)
	}
	for n, h := range c.Hours {
		if h.Outlier != (n == 2) || !h.Hour.Equal(day.AddDate(0, 0, n).Add(17*time.Hour)) {
			t.Errorf("hour %d: %+v", n, h)
		}
	}
	var rates manager.RatesResponse
	s.operator("GET", "/v1/admin/balance/rates", &rates)
	if len(rates.Rates) != 5 || rates.Rates[0].Hour != 17 {
		t.Errorf("rates by the hour of the week: %+v", rates)
	}
	var plan levelling.Plan
	s.operator("POST", "/v1/admin/balance/plan", &plan)
	if plan.Measured != 1 || plan.Outliers != 1 {
		t.Errorf("planned from %+v", plan)
	}
}

// A robot whose wall clock is hours or years wrong spoils no costs: what cannot be counts for the
// hour in which its log came. A clock that is hours behind only shifts the hour.
func TestCostsByWrongClocks(t *testing.T) {
	for name, c := range map[string]struct{ off, want time.Duration }{
		"hours ahead":  {5 * time.Hour, 0},
		"years ahead":  {3 * 365 * 24 * time.Hour, 0},
		"years behind": {-25 * 365 * 24 * time.Hour, 0},
		"hours behind": {-5 * time.Hour, -5 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil)
			secret := s.join("r1")
			s.add("http://a.test/")
			now := time.Now().UTC()
			s.submit("r1", secret, "1", wire.TimeComment(now.Add(c.off))+exchange("a.test", 100, 1000))
			var found levelling.HostCosts
			s.operator("GET", "/v1/admin/hosts/a.test/costs", &found)
			if len(found.Robots) != 1 || len(found.Robots[0].Hours) != 1 || math.Abs(found.Robots[0].Distance-10) > 0.5 {
				t.Fatalf("%+v", found)
			}
			if hour := found.Robots[0].Hours[0].Hour; hour.Sub(now.Add(c.want)).Abs() > time.Hour {
				t.Errorf("counts for %v at %v", hour, now)
			}
		})
	}
}

// A plan moves hosts to the robots to which they are near. New hosts are assigned by the factors
// of the robots' lines that the plan has found.
func TestPlanEstimatesAndProbes(t *testing.T) {
	s := start(t, nil)
	near, far := s.join("near"), s.join("slow")
	var urls []string
	for i := range 8 {
		urls = append(urls, fmt.Sprintf("http://h%d.test/", i))
	}
	s.add(urls...)
	var quick, slow strings.Builder
	for i := range 8 {
		host := fmt.Sprintf("h%d.test", i)
		quick.WriteString(exchange(host, 100, 1000))
		if i < 6 { // two are known to one robot alone
			slow.WriteString(exchange(host, 100, 4000))
		}
	}
	s.had("near", "slow")
	s.submit("near", near, "1", quick.String())
	s.submit("slow", far, "1", slow.String())
	var plan levelling.Plan
	s.operator("POST", "/v1/admin/balance/rebalance", &plan)
	_, one := s.list("near")
	_, two := s.list("slow")
	if len(one) != 7 || len(two) != 1 || plan.Moved != 3 || plan.Makespan != 7000 {
		t.Fatalf("near has %v, slow has %v by %+v", one, two, plan)
	}
	s.operator("POST", "/v1/admin/balance/plan", &plan)
	if plan.Moved != 0 {
		t.Errorf("the same costs again move %d hosts", plan.Moved)
	}
	var later []string
	for i := range 10 {
		later = append(later, fmt.Sprintf("http://later%d.test/", i))
	}
	s.add(later...)
	_, one = s.list("near")
	_, two = s.list("slow")
	if gotNear, gotSlow := len(one)-7, len(two)-1; gotNear != 8 || gotSlow != 2 {
		t.Errorf("of ten new hosts the near robot has %d and the slow one %d, want 8 and 2", gotNear, gotSlow)
	}
}

// A robot is asked to measure a distance that nobody knows and that could change the plan. The
// next plan uses the answer.
func TestProbesAreAskedForAndUsed(t *testing.T) {
	s := startWith(t, nil, levelling.Settings{Probes: 3})
	r1, r2 := s.join("r1"), s.join("r2")
	s.add("http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/")
	s.had("r1", "r2")
	s.submit("r1", r1, "1", exchange("a.test", 100, 1000)+exchange("b.test", 100, 1000)+exchange("c.test", 100, 1000)+exchange("d.test", 100, 1000))
	s.submit("r2", r2, "1", exchange("a.test", 100, 1200))
	var plan levelling.Plan
	s.operator("POST", "/v1/admin/balance/rebalance", &plan)
	if plan.Probes == 0 || plan.Measured != 5 {
		t.Fatalf("%+v", plan)
	}
	beat := func(hb wire.Heartbeat) (orders wire.Orders) {
		t.Helper()
		hb.Phase = wire.PhaseResting
		body, err := json.Marshal(hb)
		if err != nil {
			t.Fatal(err)
		}
		resp, text := s.do("POST", "/v1/robots/r2/heartbeat", "r2", r2, body)
		if resp.StatusCode == 200 {
			err = json.Unmarshal([]byte(text), &orders)
		}
		if resp.StatusCode >= 300 || err != nil {
			t.Fatalf("%d %s %v", resp.StatusCode, text, err)
		}
		return orders
	}
	asked := beat(wire.Heartbeat{}).Probes
	if len(asked) == 0 || asked[0].Files < 1 || asked[0].Files > wire.MaxProbeFiles {
		t.Fatalf("asked for %+v", asked)
	}
	if again := beat(wire.Heartbeat{}).Probes; len(again) > 0 && again[0] == asked[0] {
		t.Errorf("asked at once again for %+v", again)
	}
	host := strings.TrimSuffix(strings.TrimPrefix(asked[0].URL, "http://"), "/")
	beat(wire.Heartbeat{Probes: map[string]wire.ProbeResult{host: {Files: 10, Bytes: 200 << 10, MS: 10}, "unasked.test": {Bytes: 1}}})
	s.operator("POST", "/v1/admin/balance/rebalance", &plan)
	if plan.Measured != 6 {
		t.Errorf("planned from %d distances, want the one that was measured besides", plan.Measured)
	}
	if _, two := s.list("r2"); !strings.Contains(strings.Join(two, " "), host) {
		t.Errorf("r2 has %v and not %s, which is near to it as it found", two, host)
	}
}
