package whole

import (
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/account"
)

// hiddenHost lies below the top of a domain that nothing else is in.
const hiddenHost = "www.hidden.example.jp"

// asked returns what everything but the files answers of the pages of some hosts, as an account:
// queries, tables, jobs, replay, lists and the change feed.
func (h *withdrawer) asked(user, password string, hosts ...string) map[string]string {
	h.Helper()
	ask := func(method, path string, body string) (text string, status int, location string) {
		req, err := http.NewRequestWithContext(h.Context(), method, h.addr.HTTP+path, strings.NewReader(body))
		testkit.Must(h, err)
		if user != "" {
			req.SetBasicAuth(user, password)
		}
		if body != "" {
			req.Header.Set("Content-Type", "text/plain")
		}
		if path == "/" || strings.HasPrefix(path, "/pub/") {
			req.Header.Set("Accept", "text/html")
		}
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Do(req)
		testkit.Must(h, err)
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		testkit.Must(h, err)
		return inflated(h, data), resp.StatusCode, resp.Header.Get("Location")
	}
	answers := map[string]string{}
	get := func(path string) {
		h.Helper()
		text, status, location := ask(http.MethodGet, path, "")
		if status >= 500 || status == http.StatusUnauthorized {
			h.Errorf("GET %s: status %d: %s", path, status, text)
		}
		if status == http.StatusNotFound || status == http.StatusBadRequest {
			text = "" // a problem says what was asked for
		}
		answers[path] = text + location
	}
	post := func(path, body string) {
		h.Helper()
		text, status, _ := ask(http.MethodPost, path, body)
		if status != http.StatusOK {
			h.Errorf("POST %s: status %d: %s", path, status, text)
		}
		answers["POST "+path+"\n"+body] = text
	}
	for _, path := range []string{
		"/", "/browse/", "/browse/jp/example", "/pub/", "/pub/jp/", "/pub/jp/example/", "/pub/editions/", api.PathHosts, api.PathEditions, api.PathChanges, "/pub/feed/",
		api.PathCDX + "?url=*.example.jp", api.PathCDX + "?url=*.example.jp&output=json", api.PathPages + ".warc.gz?url=*.example.jp", api.PathPages + ".tar.gz?url=*.jp",
		api.PathPages + ".members.tar.gz?url=*.jp", api.PathCoverage + "?url=*.example.jp", api.PathFind + "?q=example.jp",
	} {
		get(path)
	}
	for _, table := range []string{"records", "hosts"} {
		get(api.PathTables + table + ".parquet?url=*.example.jp")
	}
	for _, host := range hosts {
		page := "http://" + host + "/1.html"
		for _, path := range []string{
			"/pub/" + naming.HostPath(host) + "/", api.PathArchives + host + "/all.warc.gz", api.PathCDX + "?url=" + page, api.PathCDX + "?url=http://" + host + "/*",
			api.PathTimeMap + "link/" + page, api.PathTimeMap + "json/" + page, api.PathTimeGate + page, "/web/" + page, "/web/*/" + page, "/web/2026/" + page,
			"/web/2026id_/" + page, "/web/*/http://" + host + "/*", "/web/http://" + host + "/nothing.html", api.PathFind + "?q=" + url.QueryEscape(page),
			api.PathPages + ".warc.gz?url=" + page, api.PathDiff + "20261120150405/20261120150405/" + page, api.PathCoverage + "?url=" + page,
			api.PathChanges + "?host=" + host,
		} {
			get(path)
		}
		post(api.PathCDX, page+"\n")
		post(api.PathCoverage, page+"\n")
	}
	for _, what := range []string{api.PathPages + ".warc.gz", api.PathTables + "records.parquet"} {
		text, status, job := ask(http.MethodPost, what+"?url=*.example.jp", "")
		if status != http.StatusAccepted {
			h.Errorf("POST %s: status %d: %s", what, status, text)
			continue
		}
		var result string
		testkit.Until(h, "the job has ended", func() bool {
			text, status, _ = ask(http.MethodGet, job, "")
			_, rest, ok := strings.Cut(text, `"result":"`)
			result, _, _ = strings.Cut(rest, `"`)
			return status != http.StatusOK || ok
		})
		text, status, _ = ask(http.MethodGet, result, "")
		if status != http.StatusOK {
			h.Errorf("GET %s: status %d: %s", result, status, text)
		}
		answers["job "+what] = text
	}
	return answers
}

// What a rule hides is nowhere to be found, and another account has all of it; so has everybody
// when the rule is removed.
func TestHiddenIsNowhere(t *testing.T) {
	t.Parallel()
	hosts := []string{bad, good, hiddenHost}
	h := startWithdrawerOf(t, hosts, nil)
	h.bring(1)
	password := h.admin.Consumer("reader")
	const page = "http://" + good + "/1.html"
	// A file that several records share says of none of them what its URL is, so what tells is what
	// pages say.
	words := []string{hiddenHost, naming.SURT("http://" + hiddenHost + "/"), "/jp/example/hidden", page, good + ", page 1 "}
	found := func(files map[string]string) (names []string) {
		for _, word := range words {
			names = append(names, holding(files, word)...)
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	before, askedBefore := h.tree(), h.asked("", "", hosts...)
	if n, m := len(found(before)), len(found(askedBefore)); n < 20 || m < 20 {
		t.Fatalf("before there are %d files and %d answers", n, m)
	}
	var rules [2]account.Rule
	for i, r := range []account.Rule{
		{Domain: "hidden.example.jp", Days: 30, Reason: "contract", By: "op"},
		{URLPrefix: page, Until: time.Now().Add(time.Hour), Accounts: []string{"reader"}, Reason: "privacy", By: "op"},
	} {
		if i == 0 {
			r.Accounts = []string{"reader"}
		}
		h.operate(http.MethodPost, api.PathAdminAccess, r, &rules[i])
	}
	nowhere := func(when string) {
		t.Helper()
		if names := found(h.tree()); len(names) > 0 {
			t.Errorf("%s: what is hidden is in %q", when, names)
		}
		answers := h.asked("", "", good, bad)
		for path, answer := range h.asked("", "", hiddenHost) {
			if !strings.Contains(path, page) {
				answers[path] = answer
			}
		}
		for path := range answers {
			tells := len(found(map[string]string{"": answers[path]})) > 0
			if strings.Contains(path, "1.html") { // the answer repeats what was asked for
				tells = strings.Contains(answers[path], good+", page 1 ")
			}
			if tells {
				t.Errorf("%s: %s tells of what is hidden: %.6000s", when, path, answers[path])
			}
		}
		if n := len(holding(answers, good+", page 2 ")); n < 3 {
			t.Errorf("%s: the other pages are in %d answers", when, n)
		}
	}
	nowhere("of what was there")
	if all := h.asked("reader", password, hosts...); len(found(all)) < len(found(askedBefore)) {
		t.Errorf("the account to which the rules are open has %d answers of %d", len(found(all)), len(found(askedBefore)))
	}
	h.bring(2)
	nowhere("of a late batch")
	for _, r := range rules {
		var list account.RuleList
		h.operate(http.MethodGet, api.PathAdminAccess, nil, &list)
		if !slices.ContainsFunc(list.Rules, func(l account.Rule) bool { return l.ID == r.ID }) {
			t.Errorf("rule %d is not listed: %+v", r.ID, list)
		}
		h.operate(http.MethodDelete, api.PathAdminAccess+"/"+strconv.FormatInt(r.ID, 10), nil, nil)
	}
	if names := found(h.tree()); len(names) < len(found(before)) {
		t.Errorf("after the rules are removed, %d files of %d", len(names), len(found(before)))
	}
	if err := h.admin.Do(t.Context(), http.MethodPost, api.PathAdminAccess, account.Rule{Domain: "*", Reason: "x"}, nil); err == nil || !strings.Contains(err.Error(), "open to nobody") {
		t.Errorf("a rule that is open to nobody: %v", err)
	}
	h.operate(http.MethodPost, api.PathAdminAccess, account.Rule{Domain: "*", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Reason: "reading room"}, nil)
	if text, _ := h.get(api.PathHosts); strings.Contains(text, "example.jp") {
		t.Errorf("away from the reading room one sees %s", text)
	}
	h.operate(http.MethodPost, api.PathAdminAccess, account.Rule{Domain: "*", Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Reason: "also here"}, nil)
	if text, _ := h.get(api.PathHosts); strings.Contains(text, "example.jp") {
		t.Errorf("another rule opens what the first hides: %s", text)
	}
}
