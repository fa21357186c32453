package whole

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/mailtest"
	"sheaf/test/removaltest"
	"sheaf/ui/board"
	"sheaf/ui/removal"
)

// asker is a site's owner with a browser.
type asker struct {
	*withdrawer
	page string // of the request
}

// post sends a form and returns where the answer leads.
func (a *asker) post(path string, form url.Values, header http.Header) (location, body string) {
	a.Helper()
	req, err := http.NewRequestWithContext(a.Context(), http.MethodPost, a.addr.HTTP+path, strings.NewReader(form.Encode()))
	testkit.Must(a, err)
	req.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"text/html"}}
	for name, values := range header {
		req.Header[name] = values
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	testkit.Must(a, err)
	defer resp.Body.Close()
	var text strings.Builder
	testkit.Must(a, resp.Write(&text))
	if resp.StatusCode != http.StatusSeeOther {
		a.Fatalf("POST %s %v: %s", path, form, text.String())
	}
	return resp.Header.Get("Location"), text.String()
}

func (h *withdrawer) owner(kind, target string, header http.Header) *asker {
	h.Helper()
	a := &asker{withdrawer: h}
	a.page, _ = a.post(removal.Path, url.Values{"wish": {"removal"}, "kind": {kind}, "target": {target}, "email": {"owner@mail.example"}, "reason": {"it is ours"}}, header)
	return a
}

func (a *asker) token() string {
	a.Helper()
	text, _ := a.get(a.page)
	return regexp.MustCompile(`sheaf-removal-[0-9a-f]{32}`).FindString(text)
}

// An owner asks for removal of a host with all its ports, proved by a file, of a page, by a mail,
// and of a domain, by DNS. Once granted on the board or by the command's path, nothing of it is
// left by HTTP, FTP and search, also when a batch that was under way comes; robots are given no
// host of it; and the asker is told.
func TestRemovalFromRequestToSilence(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	internet, office := removaltest.New(t), mailtest.New(t)
	internet.Name(bad, removaltest.Public)
	h := startWithdrawerOf(t, []string{bad, bad + ":8080", good}, map[string]any{"watch.mail.server": office.Address, "watch.mail.from": office.From, "watch.mail.tls": "none"}, service.WithSites(internet.Network()))
	h.bring(1)
	page := "http://" + good + "/1.html"
	if before := h.tree(); len(holding(before, bad)) == 0 || len(holding(before, page)) == 0 {
		t.Fatalf("before: %q", holding(before, ""))
	}

	byFile := h.owner("host", "http://"+bad+"/", http.Header{"Accept-Language": {"ja"}})
	internet.File(bad, removaltest.File, byFile.token()+"\n")
	byFile.post(byFile.page, url.Values{"act": {"file"}}, nil)
	byMail := h.owner("prefix", page, nil)
	byMail.post(byMail.page, url.Values{"act": {"send"}, "address": {"hostmaster@example.jp"}}, nil)
	var code string
	testkit.Until(t, "the mail with the code", func() bool {
		for _, l := range office.To(t, "hostmaster@example.jp") {
			code = regexp.MustCompile(`[A-Z2-7]{5}-[A-Z2-7]{5}`).FindString(l.Text)
		}
		return code != ""
	})
	byMail.post(byMail.page, url.Values{"act": {"code"}, "code": {code}}, nil)

	var proved removal.RequestList
	h.operate(http.MethodGet, api.PathAdminRemovals+"?state=proved", nil, &proved)
	if len(proved.Requests) != 2 {
		t.Fatalf("proved: %+v", proved)
	}
	byFile.post(board.Path+"removals", url.Values{"id": {strings.Split(byFile.page, "/")[2]}, "act": {"grant"}, "reason": {"はい"}},
		http.Header{"Authorization": {"Bearer " + h.admin.Token}})
	h.operate(http.MethodPost, api.PathAdminRemovals+"/"+strings.Split(byMail.page, "/")[2], removal.Decision{Grant: true, By: "ops"}, nil)

	gone := func(when string, words ...string) {
		t.Helper()
		files := h.tree()
		for _, word := range words {
			if names := holding(files, word); len(names) > 0 {
				t.Errorf("%s: %q is in %q", when, word, names)
			}
		}
		for _, path := range []string{"/web/2026/http://" + bad + "/1.html", "/web/2026/" + page, "/v1/cdx?output=cdxj&url=" + bad + "/*", "/v1/cdx?output=cdxj&url=" + page, "/web/2026/http://" + bad + ":8080/1.html", "/browse/jp/example/bad/www/", "/browse/jp/example/bad/www_8080/"} {
			if text, status := h.get(path); status == http.StatusOK && strings.TrimSpace(text) != "" {
				t.Errorf("%s: %s: %d %.200s", when, path, status, text)
			}
		}
	}
	gone("once granted", bad, page)
	if list := h.list(); strings.Contains(list, bad) || !strings.Contains(list, good) {
		t.Errorf("the robot's list: %s", list)
	}
	h.bring(2)
	gone("after a late batch", bad, page)

	byDNS := h.owner("domain", "example.jp", nil)
	internet.Record("_sheaf-removal.example.jp", byDNS.token())
	byDNS.post(byDNS.page, url.Values{"act": {"dns"}}, nil)
	h.operate(http.MethodPost, api.PathAdminRemovals+"/"+strings.Split(byDNS.page, "/")[2], removal.Decision{Grant: true, By: "ops"}, nil)
	gone("once the domain is granted", bad, good)
	if list := h.list(); strings.Contains(list, "example.jp") {
		t.Errorf("the robot's list: %s", list)
	}
	refused := h.owner("host", "www.other.jp", nil)
	h.operate(http.MethodPost, api.PathAdminRemovals+"/"+strings.Split(refused.page, "/")[2], removal.Decision{Reason: "it is not yours", By: "ops"}, nil)
	testkit.Until(t, "four requests and four decisions by mail", func() bool { return len(office.To(t, "owner@mail.example")) == 8 })
	told := map[string]bool{}
	for _, l := range office.To(t, "owner@mail.example") {
		told["はい"] = told["はい"] || strings.Contains(l.Text, "はい") && strings.Contains(l.Text, "依頼は認められ")
		told["no"] = told["no"] || strings.Contains(l.Text, "it is not yours") && strings.Contains(l.Text, "refused")
	}
	if !told["はい"] || !told["no"] {
		t.Errorf("%v", office.To(t, "owner@mail.example"))
	}
}

// list returns the robot's list of hosts.
func (h *withdrawer) list() string {
	h.Helper()
	resp := h.ask(http.MethodGet, strings.ReplaceAll(wire.PathList, "{robot}", h.robot.Name), nil, nil)
	var lines strings.Builder
	for l, err := range wire.ReadHostList(resp.Body, 1<<20) {
		testkit.Must(h, err)
		lines.WriteString(l.URL + "\n")
	}
	return lines.String()
}
