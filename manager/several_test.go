package manager_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
)

// fetch returns a robot's list, as a program gets it that can collect shares, or that cannot. It
// then works by the list, as the manager sees it.
func (s *service) fetch(robot, secret string, shares bool) []wire.HostLine {
	s.t.Helper()
	var header []string
	if shares {
		header = []string{wire.HeaderAccept, wire.AcceptAdditions}
	}
	resp, body := s.do("GET", "/v1/robots/"+robot+"/list", robot, secret, nil, header...)
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("list of %s: %d %s", robot, resp.StatusCode, body)
	}
	var lines []wire.HostLine
	for l, err := range wire.ReadHostList(strings.NewReader(body), 1<<20) {
		if err != nil {
			s.t.Fatal(err)
		}
		lines = append(lines, l)
	}
	s.do("GET", "/v1/robots/"+robot+"/list", robot, secret, nil, append(header, "If-None-Match", resp.Header.Get("ETag"))...)
	return lines
}

// shares returns each robot's share of a host, once all robots work by their lists.
func (s *service) shares(secrets map[string]string, url string) map[string]wire.Share {
	s.t.Helper()
	got := map[string]wire.Share{}
	for robot, secret := range secrets {
		s.fetch(robot, secret, true)
	}
	for robot, secret := range secrets {
		for _, l := range s.fetch(robot, secret, true) {
			if l.URL == url && !l.Wait {
				got[robot] = l.Share
			}
		}
	}
	return got
}

// parts reports whether the shares make up the whole.
func parts(shares map[string]wire.Share, split bool) bool {
	var have []int
	for _, s := range shares {
		if s.Of > 1 && s.Split != split || s.Of != len(shares) && len(shares) > 1 {
			return false
		}
		have = append(have, s.Part)
	}
	slices.Sort(have)
	for k, p := range have {
		if p != k {
			return false
		}
	}
	return true
}

func (s *service) crew(n int) map[string]string {
	secrets := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("r%d", i+1)
		secrets[name] = s.join(name)
		s.fetch(name, secrets[name], true)
	}
	return secrets
}

func TestHostIsGivenToSeveralRobotsOnPurpose(t *testing.T) {
	s := start(t, nil)
	secrets := s.crew(3)
	s.add("http://a.jp/", "http://b.jp/", "http://c.jp/", "http://d.jp/")
	if _, err := s.AddHosts(t.Context(), []string{"http://both.jp/"}, nil, assign.Replication{Copies: 2}); err != nil {
		t.Fatal(err)
	}
	got := s.shares(secrets, "http://both.jp/")
	if len(got) != 2 || !parts(got, false) {
		t.Fatalf("two copies are with %v", got)
	}
	hosts, err := s.Hosts(t.Context(), hosts.Filter{}, "bot", 1)
	if err != nil || len(hosts) != 1 || hosts[0].Copies != 2 || len(hosts[0].Robots) != 2 {
		t.Errorf("shown as %+v, %v", hosts, err)
	}
	if _, err := s.AddHosts(t.Context(), []string{"http://both.jp/"}, nil, assign.Replication{Copies: 5}); err != nil {
		t.Fatal(err)
	}
	if got := s.shares(secrets, "http://both.jp/"); len(got) != 3 || !parts(got, false) {
		t.Errorf("five copies among three robots are %v", got)
	}
	secrets["r9"] = s.join("r9")
	if got := s.shares(secrets, "http://both.jp/"); len(got) != 4 || !parts(got, false) {
		t.Errorf("with a fourth robot they are %v", got)
	}
	// If one of its robots leaves, no other robot gets two copies. This holds for the first
	// robot, too.
	for _, leaver := range []string{hosts[0].Robots[0], hosts[0].Robots[1]} {
		if err := s.Unsubscribe(t.Context(), leaver); err != nil {
			t.Fatal(err)
		}
		delete(secrets, leaver)
		if got := s.shares(secrets, "http://both.jp/"); len(got) != len(secrets) || !parts(got, false) {
			t.Errorf("after %s has gone they are %v", leaver, got)
		}
	}
	if _, err := s.AddHosts(t.Context(), []string{"http://both.jp/"}, nil, assign.Replication{Copies: 1}); err != nil {
		t.Fatal(err)
	}
	if got := s.shares(secrets, "http://both.jp/"); len(got) != 1 || !parts(got, false) {
		t.Errorf("given to one again it is with %v", got)
	}
	if err := s.RemoveHost(t.Context(), "both.jp"); err != nil {
		t.Fatal(err)
	}
	if got := s.shares(secrets, "http://both.jp/"); len(got) != 0 {
		t.Errorf("refused it is with %v", got)
	}
	for _, bad := range []assign.Replication{{Copies: 2, Parts: 2}, {Copies: -1}, {Parts: 65}} {
		if _, err := s.AddHosts(t.Context(), []string{"http://a.jp/"}, nil, bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// A host with fewer robots than wanted makes no new lists while robots are missing. A host that
// was split and is to be copied instead makes new lists.
func TestMissingCopiesChangeNoList(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	secrets := s.crew(2)
	add := func(want assign.Replication) int64 {
		t.Helper()
		_, err := s.AddHosts(t.Context(), []string{"http://a.jp/"}, nil, want)
		testkit.Must(t, err)
		g, err := s.CurrentGeneration(t.Context())
		testkit.Must(t, err)
		return g
	}
	before := add(assign.Replication{Copies: 5})
	if after := add(assign.Replication{}); after != before {
		t.Errorf("adding a known host made generation %d after %d", after, before)
	}
	add(assign.Replication{Copies: 1})
	before = add(assign.Replication{Parts: 2})
	if got := s.shares(secrets, "http://a.jp/"); len(got) != 2 || !parts(got, true) {
		t.Fatalf("split it is with %v", got)
	}
	_, err := s.AddHosts(t.Context(), []string{"http://a.jp/"}, nil, assign.Replication{Parts: 1})
	testkit.Must(t, err)
	if after := add(assign.Replication{Copies: 2}); after == before {
		t.Error("its robots were not told that it is to be copied")
	}
	if got := s.shares(secrets, "http://a.jp/"); len(got) != 2 || !parts(got, false) {
		t.Errorf("copied it is with %v", got)
	}
}

// Only robots whose program can collect shares get one. Others have the host whole or not at all.
func TestSplitHostIsSharedByThoseWhoUnderstand(t *testing.T) {
	s := start(t, nil)
	old := s.join("old")
	s.add("http://a.jp/")
	secrets := s.crew(2)
	if _, err := s.AddHosts(t.Context(), []string{"http://large.jp/"}, nil, assign.Replication{Parts: 3}); err != nil {
		t.Fatal(err)
	}
	whole := func() bool {
		return slices.ContainsFunc(s.fetch("old", old, false), func(l wire.HostLine) bool { return l.URL == "http://large.jp/" })
	}
	if got := s.shares(secrets, "http://large.jp/"); whole() && len(got) > 0 || !whole() && (len(got) != 2 || !parts(got, true)) {
		t.Fatalf("shared by %v, and whole at the old robot: %v", got, whole())
	}
	if err := s.Unsubscribe(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	got := s.shares(secrets, "http://large.jp/")
	if len(got) != 2 || !parts(got, true) {
		t.Fatalf("shared by %v, want both robots", got)
	}
	// If a robot goes back to an old program, it has nothing of the host, and the other robot has
	// all.
	s.fetch("r2", secrets["r2"], false)
	if lines := s.fetch("r2", secrets["r2"], false); slices.ContainsFunc(lines, func(l wire.HostLine) bool { return l.URL == "http://large.jp/" && got["r2"].Part > 0 }) {
		t.Errorf("an old program is given a share: %v", lines)
	}
	if got["r2"].Part > 0 {
		if now := s.shares(map[string]string{"r1": secrets["r1"]}, "http://large.jp/"); now["r1"].Of > 1 {
			t.Errorf("the other has %v, want all of it", now)
		}
	}
}

// What one robot finds of the other's share gets to the other with its list, however much it is,
// and with its depth.
func TestLinksOfOthersSharesComeToThem(t *testing.T) {
	s := start(t, nil)
	secrets := s.crew(2)
	if _, err := s.AddHosts(t.Context(), []string{"http://large.jp/"}, nil, assign.Replication{Parts: 2}); err != nil {
		t.Fatal(err)
	}
	var found []wire.HostLine
	for n := range 500 {
		found = append(found, wire.HostLine{URL: fmt.Sprintf("http://large.jp/%d.html", n), Depth: 3})
	}
	if _, err := s.Discover(t.Context(), "r1", found); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range s.fetch("r2", secrets["r2"], true) {
		if l.Depth == 3 && l.Share.Split && l.Share.Of == 2 {
			n++
		}
	}
	if n != len(found) {
		t.Errorf("%d of %d links came to the other robot", n, len(found))
	}
}

// The plan keeps the copies of a host apart, counts the work of each, and splits a host that is
// too large for a window.
func TestPlanKeepsCopiesApartAndSplitsLargeHosts(t *testing.T) {
	testkit.Slow(t)
	s := startWith(t, nil, levelling.Settings{Window: time.Hour, Split: true})
	secrets := s.crew(3)
	var lines strings.Builder
	urls := []string{"http://large.jp/", "http://both.jp/"}
	for n := range 30 {
		urls = append(urls, fmt.Sprintf("http://h%d.jp/", n))
	}
	s.add(urls...)
	if _, err := s.AddHosts(t.Context(), []string{"http://both.jp/"}, nil, assign.Replication{Copies: 2}); err != nil {
		t.Fatal(err)
	}
	lines.WriteString(exchange("both.jp", 50_000, 3600*1000/2))
	for n := range 30 {
		lines.WriteString(exchange(fmt.Sprintf("h%d.jp", n), 1000, 60_000))
	}
	s.had(slices.Collect(maps.Keys(secrets))...)
	for robot, secret := range secrets {
		if robot == "r1" { // one robot has had it so far
			s.submit(robot, secret, "1", lines.String()+exchange("large.jp", 100_000, 2*3600*1000))
			continue
		}
		s.submit(robot, secret, "1", lines.String())
	}
	plan, err := s.Rebalance(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Large) != 1 || plan.Large[0].Host != "large.jp" || plan.Large[0].Parts != 2 {
		t.Errorf("too large are %+v", plan.Large)
	}
	if got := s.shares(secrets, "http://large.jp/"); len(got) != 2 || !parts(got, true) {
		t.Errorf("the large host is shared by %v", got)
	}
	if plan, err = s.Rebalance(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	// Two halves of an hour each, two copies of half an hour each, and 30 minutes: one of three
	// robots must have a half and a copy.
	if want := 1.5 * 3600e3; plan.Makespan < 0.999*want || plan.Makespan > 1.07*want {
		t.Errorf("the plan ends after %.0f ms, want about %.0f", plan.Makespan, want)
	}
	for _, url := range []string{"http://large.jp/", "http://both.jp/"} {
		if got := s.shares(secrets, url); len(got) != 2 || !parts(got, url == "http://large.jp/") {
			t.Errorf("%s is with %v", url, got)
		}
	}
}

// A robot that knows the paper's form only gets lines of a URL and a referer, each once.
func TestPaperRobotGetsPaperForm(t *testing.T) {
	s := start(t, nil)
	secret := s.join("paper")
	s.add("http://a.jp/")
	testkit.Must(t, s.SetInterval(t.Context(), hosts.IntervalRequest{Hosts: []string{"a.jp"}, Interval: "2s", Reason: "its owner asks"}))
	for _, url := range []string{"http://a.jp/x/", "http://a.jp/y/"} {
		testkit.Must(t, s.RefusePrefix(t.Context(), hosts.RefusedPrefix{URL: url, By: "op", Reason: "its owner asks"}))
	}
	if with := s.fetch("paper", secret, true); len(with) != 2 || with[0].Omit == "" || with[0].Interval != 2*time.Second {
		t.Errorf("with the additions: %+v", with)
	}
	if without := s.fetch("paper", secret, false); !slices.Equal(without, []wire.HostLine{{URL: "http://a.jp/"}}) {
		t.Errorf("without: %+v", without)
	}
}
