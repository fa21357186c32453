package service

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/manager/hosts"
)

// fillHosts enters hosts that wait, hosts that are collected, and one that does not answer.
func fillHosts(t *testing.T, s *Service) {
	t.Helper()
	for _, h := range [][]string{
		{"www.waseda.ac.jp", "accepted"}, {"cs.waseda.ac.jp", "accepted"}, {"old.waseda.ac.jp", "pending"}, {"shop.example.jp", "pending"}, {"a_b.example.jp", "pending"}, {"axb.example.jp", "refused"}, {"library.example.org:8080", "pending"},
	} {
		_, err := s.state.db.ExecContext(t.Context(), `INSERT INTO hosts (name, state, source, created, grp, domain) VALUES (?, ?, 'waseda', 0, ?, ?)`, h[0], h[1], h[0], hosts.Registered(h[0]))
		testkit.Must(t, err)
	}
	_, err := s.state.db.ExecContext(t.Context(), `INSERT INTO visits (host, robot, at, status, pages, bytes, why) VALUES ('cs.waseda.ac.jp', 'waseda', 1, 0, 0, 0, 'timeout'), ('www.waseda.ac.jp', 'waseda', 1, 200, 7, 70, '')`)
	testkit.Must(t, err)
}

// Operators find hosts by a part of the name, the domain, the state and whether they answer, and
// count them by registered domain.
func TestHostsAreFoundOnTheBoard(t *testing.T) {
	s := newTestService(t)
	fillHosts(t, s)
	all := []string{"www.waseda.ac.jp", "cs.waseda.ac.jp", "old.waseda.ac.jp", "shop.example.jp", "a_b.example.jp", "axb.example.jp", "library.example.org:8080"}
	for query, want := range map[string][]string{
		"":                                   {"old.waseda.ac.jp", "shop.example.jp", "a_b.example.jp", "library.example.org:8080"},
		"state=all&part=WASEDA":              {"www.waseda.ac.jp", "cs.waseda.ac.jp", "old.waseda.ac.jp"},
		"state=all&part=a_b":                 {"a_b.example.jp"},
		"state=accepted&domain=ac.jp":        {"www.waseda.ac.jp", "cs.waseda.ac.jp"},
		"state=all&domain=example.org":       {"library.example.org:8080"},
		"state=all&domain=waseda.ac.jp":      {"www.waseda.ac.jp", "cs.waseda.ac.jp", "old.waseda.ac.jp"},
		"state=all&unanswered=true":          {"cs.waseda.ac.jp"},
		"state=all&unanswered=true&part=www": {},
		"state=refused&part=":                {"axb.example.jp"},
	} {
		page := browse(s, http.MethodGet, "/board/hosts?"+query, "ops", s.OperatorToken(), nil).Body.String()
		var got []string
		for _, host := range all {
			if strings.Contains(page, `<a href="/board/hosts/`+host+`">`) {
				got = append(got, host)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q finds %v, want %v", query, got, want)
		}
	}
	page := browse(s, http.MethodGet, "/board/hosts?state=all&grouped=true&domain=jp", "ops", s.OperatorToken(), nil).Body.String()
	if !strings.Contains(page, "waseda.ac.jp</a></td>") || !strings.Contains(page, "example.jp</a></td>") || strings.Contains(page, "example.org</a></td>") || strings.Contains(page, ">cs.waseda") {
		t.Errorf("%s", page)
	}
}

// The form of the list says what the list was asked for, and no act is offered that would decide
// about hosts that the list leaves out.
func TestHostsListSaysWhatItShows(t *testing.T) {
	s := newTestService(t)
	fillHosts(t, s)
	_, err := s.state.db.ExecContext(t.Context(), `INSERT INTO visits (host, robot, at, status, pages, bytes, why) VALUES ('old.waseda.ac.jp', 'waseda', 1, 0, 0, 0, 'dns'), ('shop.example.jp', 'waseda', 1, 0, 0, 0, 'dns')`)
	testkit.Must(t, err)
	const all, decides, nobody = `<option value="all" selected>`, `name="match"`, "No host waits for a decision."
	for _, c := range []struct {
		query, has, lacks string
	}{
		{"part=waseda", all, decides},
		{"state=all", all, decides},
		{"", decides, all},
		{"state=pending&unanswered=true", "shop.example.jp", decides},
		{"state=pending&robot=nobody", "Nothing is found.", nobody},
		{"state=pending&grouped=true&robot=waseda", "robot=waseda&amp;state=pending", decides},
	} {
		page := browse(s, http.MethodGet, "/board/hosts?"+c.query, "ops", s.OperatorToken(), nil).Body.String()
		if !strings.Contains(page, c.has) || strings.Contains(page, c.lacks) {
			t.Errorf("%q: want %s and no %s: %s", c.query, c.has, c.lacks, page)
		}
	}
}

// One act decides about all that match, and about no other.
func TestAllThatMatchAreDecided(t *testing.T) {
	s := newTestService(t)
	fillHosts(t, s)
	_, err := s.state.db.ExecContext(t.Context(), `INSERT INTO visits (host, robot, at, status, pages, bytes, why) SELECT name, 'waseda', 1, 0, 0, 0, 'dns' FROM hosts WHERE name LIKE 'shop%' OR name LIKE 'old%'`)
	testkit.Must(t, err)
	post := func(form url.Values) {
		if w := browse(s, http.MethodPost, "/board/hosts", "ops", s.OperatorToken(), form); w.Code != http.StatusSeeOther {
			t.Fatalf("%v: %d %s", form, w.Code, w.Body)
		}
	}
	states := func() string {
		var all []string
		for _, host := range []string{"old.waseda.ac.jp", "shop.example.jp", "a_b.example.jp", "library.example.org:8080"} {
			var state string
			testkit.Must(t, s.state.db.QueryRowContext(t.Context(), `SELECT state FROM hosts WHERE name = ?`, host).Scan(&state))
			all = append(all, state)
		}
		return strings.Join(all, " ")
	}
	for query, offered := range map[string]bool{"": true, "state=pending&unanswered=true": false} {
		page := browse(s, http.MethodGet, "/board/hosts?"+query, "ops", s.OperatorToken(), nil).Body.String()
		if !strings.Contains(page, ">shop.example.jp</a>") || strings.Contains(page, `name="match"`) != offered || strings.Contains(page, `name="most" value="4"`) != offered {
			t.Errorf("%q does not offer what can be decided: %s", query, page)
		}
	}
	few := url.Values{"act": {"accepted"}, "match": {"true"}, "most": {"3"}} // a robot has found one since
	if w := browse(s, http.MethodPost, "/board/hosts", "ops", s.OperatorToken(), few); w.Code != http.StatusUnprocessableEntity || states() != "pending pending pending pending" {
		t.Errorf("a decision about 3 hosts, of which there are 4: %d, %s", w.Code, states())
	}
	post(url.Values{"act": {"refused"}, "match": {"true"}, "part": {"B"}, "domain": {"example.jp"}})
	if got := states(); got != "pending pending refused pending" {
		t.Errorf("after the first: %s", got)
	}
	post(url.Values{"act": {"accepted"}, "match": {"true"}, "domain": {"jp"}, "robot": {"nobody"}})
	if got := states(); got != "pending pending refused pending" {
		t.Errorf("after one that matches nothing: %s", got)
	}
	post(url.Values{"act": {"refused"}, "match": {"true"}})
	if got := states(); got != "refused refused refused refused" {
		t.Errorf("after all: %s", got)
	}
}

// The page of a host has its visits, and orders a visit, sets its interval and ends its collecting.
func TestHostOnTheBoard(t *testing.T) {
	s := newTestService(t)
	fillHosts(t, s)
	const at = "/board/hosts/cs.waseda.ac.jp"
	if page := browse(s, http.MethodGet, at, "ops", s.OperatorToken(), nil).Body.String(); !strings.Contains(page, "timeout") {
		t.Errorf("%s", page)
	}
	for _, step := range []struct {
		act  string
		form url.Values
		code int
		asks string // for a number of rows
	}{
		{"/visit", nil, 303, `SELECT COUNT(*) FROM visit_orders WHERE host = 'cs.waseda.ac.jp'`},
		{"/interval", url.Values{"interval": {"5s"}, "reason": {"the owner"}}, 303, `SELECT COUNT(*) FROM hosts WHERE interval_ms = 5000`},
		{"/interval", url.Values{"interval": {"5s"}}, 422, `SELECT COUNT(*) FROM hosts WHERE interval_ms = 5000`},
		{"/assign", url.Values{"robot": {"nobody"}, "reason": {"x"}}, 422, `SELECT 1`},
		{"/remove", nil, 303, `SELECT COUNT(*) FROM hosts WHERE name = 'cs.waseda.ac.jp' AND state = 'refused'`},
		{"/visit", nil, 422, `SELECT 1`},
	} {
		w := browse(s, http.MethodPost, at+step.act, "ops", s.OperatorToken(), step.form)
		var n int
		testkit.Must(t, s.state.db.QueryRowContext(t.Context(), step.asks).Scan(&n))
		if w.Code != step.code || n != 1 {
			t.Errorf("%s %v: %d, %d rows: %s", step.act, step.form, w.Code, n, w.Body)
		}
	}
	if code := browse(s, http.MethodGet, "/board/hosts/nothing.example.jp", "ops", s.OperatorToken(), nil).Code; code != http.StatusNotFound {
		t.Errorf("a host that is not there: %d", code)
	}
}
