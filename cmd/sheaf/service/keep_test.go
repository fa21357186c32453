package service

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/manager/hosts"
	"sheaf/serve/account"
	"sheaf/ui/removal"
)

func loseDatabase(t *testing.T, data string) {
	t.Helper()
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(data, "sheaf.db"+end)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// What was hidden or excluded after a backup was made is so when the backup has been restored, and
// in a database that begins anew, from the first request on. What was ended after the backup holds
// again. An ordinary restart brings back nothing that was ended.
func TestRestoreRevealsNothing(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	settings := map[string]any{"data": data, "stop": "1s"}
	s, stop := start(t, settings)
	do := func(method, path string, in, out any) {
		t.Helper()
		testkit.Must(t, operate(t, s, method, path, in, out))
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	hide := func(domain string) (r account.Rule) {
		do(http.MethodPost, api.PathAdminAccess, account.Rule{Domain: domain, Until: until, Reason: "contract & more"}, &r)
		return r
	}
	do(http.MethodPost, api.PathAdminAccounts, account.NewAccount{Account: account.Account{Name: "alice", Domains: []string{"jp"}}, Password: "wonderland"}, nil)
	hide("old.jp")
	var backup bytes.Buffer
	testkit.Must(t, writeBackup(t.Context(), s.state.db, &s.cfg, &backup))

	hide("new.jp")
	hide("brief.jp")
	for _, id := range []string{"1", "3"} { // old.jp, which is in the backup, and brief.jp
		do(http.MethodDelete, api.PathAdminAccess+"/"+id, nil, nil)
	}
	do(http.MethodPatch, api.PathAdminAccounts+"/alice", map[string]bool{"suspended": true}, nil)
	do(http.MethodPost, api.PathAdminDomains, hosts.RefusedDomain{Domain: "refused.jp", Reason: "a letter"}, nil)
	do(http.MethodPost, api.PathAdminPrefixes, hosts.RefusedPrefix{URL: "http://www.example.jp/private/", Reason: "a letter"}, nil)
	_, err := s.state.db.ExecContext(t.Context(), `INSERT INTO removals (id, secret, wish, kind, target, site, email, reason, lang, network, created, state)
		VALUES ('asked', 's', 'removal', 'host', 'owned.jp', 'owned.jp', 'owner@mail.example', 'ours', 'en', '', 1, 'proved')`)
	testkit.Must(t, err)
	do(http.MethodPost, path.Join(api.PathAdminRemovals, "asked"), removal.Decision{Grant: true, By: "ops"}, nil)
	testkit.Must(t, stop())

	rules := func(when string, want ...string) {
		t.Helper()
		var list account.RuleList
		do(http.MethodGet, api.PathAdminAccess, nil, &list)
		var got []string
		for _, r := range list.Rules {
			got = append(got, r.Domain)
			if !r.Until.Equal(until) || r.Reason != "contract & more" {
				t.Errorf("%s: %+v", when, r)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: the rules are of %q, want %q", when, got, want)
		}
	}
	rest := func(when string) {
		t.Helper()
		var domains manager.DomainsResponse
		do(http.MethodGet, api.PathAdminDomains, nil, &domains)
		if len(domains.Domains) != 1 || domains.Domains[0].Domain != "refused.jp" || domains.Domains[0].Reason != "a letter" {
			t.Errorf("%s: domains: %+v", when, domains)
		}
		var prefixes manager.PrefixesResponse
		do(http.MethodGet, api.PathAdminPrefixes, nil, &prefixes)
		if len(prefixes.Prefixes) != 1 || prefixes.Prefixes[0].URL != "http://www.example.jp/private/" {
			t.Errorf("%s: prefixes: %+v", when, prefixes)
		}
		var granted removal.RequestList
		do(http.MethodGet, api.PathAdminRemovals+"?state=granted", nil, &granted)
		if len(granted.Requests) != 1 || granted.Requests[0].Target != "owned.jp" || granted.Requests[0].Carried.IsZero() {
			t.Errorf("%s: removals: %+v", when, granted)
		}
		var state string
		testkit.Must(t, s.state.db.QueryRowContext(t.Context(), `SELECT state FROM hosts WHERE name = 'owned.jp'`).Scan(&state))
		if state != "refused" {
			t.Errorf("%s: the removed host is %s", when, state)
		}
	}
	s, stop = start(t, settings)
	rules("restarted", "new.jp")
	rest("restarted")
	testkit.Must(t, stop())

	loseDatabase(t, data)
	_, err = Restore(t.Context(), testConfig(t, settings), &backup)
	testkit.Must(t, err)
	var said bytes.Buffer
	s, err = New(t.Context(), testConfig(t, settings), slog.New(slog.NewTextHandler(&said, nil)))
	testkit.Must(t, err)
	stop = serveUntilEnd(t, s)
	rules("restored", "new.jp", "old.jp")
	rest("restored")
	var accounts account.AccountList
	do(http.MethodGet, api.PathAdminAccounts, nil, &accounts)
	if len(accounts.Accounts) != 1 || !accounts.Accounts[0].Suspended {
		t.Errorf("restored: %+v", accounts)
	}
	do(http.MethodDelete, api.PathAdminAccess+"/1", nil, nil)
	testkit.Must(t, stop())
	for _, words := range []string{"alice", "refused.jp", "asked", "end it again"} {
		if !strings.Contains(said.String(), words) {
			t.Errorf("the log does not say %q: %s", words, said.String())
		}
	}

	loseDatabase(t, data)
	settings["database.fresh"] = true
	s, _ = start(t, settings)
	rules("begun anew", "new.jp")
	rest("begun anew")
	report, err := catalog.Fsck(t.Context(), s.state.objects, catalog.FsckOptions{})
	if testkit.Must(t, err); report.Found > 0 || report.Versions < 8 {
		t.Errorf("fsck: %+v", report)
	}
}

// Reasons are texts, whatever they look like. What is kept makes no further version of the catalog.
func TestReasonsAreKeptAsWritten(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	settings := map[string]any{"data": data, "stop": "1s"}
	reasons := map[string]string{"a.jp": `"quoted" & <signed>`, "b.jp": `"a & b" `, "c.jp": "7 ", "d.jp": "null", "e.jp": ""}
	want := func(s *Service) {
		t.Helper()
		var got manager.DomainsResponse
		testkit.Must(t, operate(t, s, http.MethodGet, api.PathAdminDomains, nil, &got))
		if len(got.Domains) != len(reasons) {
			t.Errorf("%d domains are refused, want %d", len(got.Domains), len(reasons))
		}
		for _, d := range got.Domains {
			if d.Reason != reasons[d.Domain] {
				t.Errorf("%s is refused because of %q, want %q", d.Domain, d.Reason, reasons[d.Domain])
			}
		}
	}
	versions := func(s *Service) int64 {
		t.Helper()
		report, err := catalog.Fsck(t.Context(), s.state.objects, catalog.FsckOptions{})
		testkit.Must(t, err)
		return report.Versions
	}
	s, stop := start(t, settings)
	for domain, reason := range reasons {
		testkit.Must(t, operate(t, s, http.MethodPost, api.PathAdminDomains, hosts.RefusedDomain{Domain: domain, Reason: reason}, nil))
	}
	before := versions(s)
	for range 3 { // each is followed by a look for what is to be kept
		testkit.Must(t, operate(t, s, http.MethodPost, api.PathAdminDomains, hosts.RefusedDomain{Domain: "a.jp"}, nil))
	}
	if after := versions(s); after != before {
		t.Errorf("the catalog has %d versions, and had %d before nothing changed", after, before)
	}
	want(s)
	testkit.Must(t, stop())
	loseDatabase(t, data)
	settings["database.fresh"] = true
	s, _ = start(t, settings)
	want(s)
}

// A robot whose key was stolen is revoked in a backup that is from before, too, and in a new
// database nobody gets its name.
func TestStolenKeyStaysRevoked(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	settings := map[string]any{"data": data, "stop": "1s"}
	s, stop := start(t, settings)
	admit := func(name string) error {
		t.Helper()
		return operate(t, s, http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: name}, nil)
	}
	testkit.Must(t, admit("waseda"))
	var backup bytes.Buffer
	testkit.Must(t, writeBackup(t.Context(), s.state.db, &s.cfg, &backup))
	testkit.Must(t, operate(t, s, http.MethodDelete, api.PathAdminRobots+"/waseda?since=2026-01-02T03:04:05Z", nil, nil))
	testkit.Must(t, stop())
	want := func(when string) {
		t.Helper()
		var since, revoked, tokens int64
		testkit.Must(t, s.state.db.QueryRowContext(t.Context(), `SELECT stolen, revoked, COUNT(token_hash) FROM robots WHERE name = 'waseda' GROUP BY stolen, revoked`).Scan(&since, &revoked, &tokens))
		if since != time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli() || revoked == 0 || tokens != 0 {
			t.Errorf("%s: stolen %d, revoked %d, %d tokens", when, since, revoked, tokens)
		}
		if err := admit("waseda"); err == nil {
			t.Errorf("%s: its name is admitted again", when)
		}
	}
	loseDatabase(t, data)
	_, err := Restore(t.Context(), testConfig(t, settings), &backup)
	testkit.Must(t, err)
	s, stop = start(t, settings)
	want("restored")
	testkit.Must(t, stop())
	loseDatabase(t, data)
	settings["database.fresh"] = true
	s, _ = start(t, settings)
	want("begun anew")
}
