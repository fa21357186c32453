package demo

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"sheaf/internal/session"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/ui/board"
)

// checkPages logs in as the reader, looks at the front page, which names the sites, and at their
// home pages. It logs in as the operator, looks at the board, and releases the batch that is in
// the quarantine.
func checkPages(t *testing.T, w *web, r Report) {
	t.Helper()
	reader := logIn(t, r.HTTP, r.Account, r.Password)
	reader.see("/", w.Hosts()...)
	for _, host := range w.Hosts() {
		reader.see("/web/http://"+host+"/", "sheaf-archive-banner")
	}
	operator := logIn(t, r.HTTP, r.Operator, r.OperatorPassword)
	const quarantine = board.Path + "batches?state=" + string(wire.StateQuarantined)
	page := operator.see(quarantine, string(wire.ReasonHostNotAssigned), strayHost, "Release", "Discard")
	bad := regexp.MustCompile(`value="(` + robots[0] + `-[^"]+)"`).FindStringSubmatch(page)
	if bad == nil {
		t.Fatalf("%s names no batch of %s", quarantine, robots[0])
	}
	for path, words := range map[string][]string{
		board.Path:                      append([]string{quarantine, notJoined, "for a decision"}, robots...),
		board.Path + "transfers?by=day": robots,
		board.Path + "batches?state=" + string(wire.StatePublished): robots,
		board.Path + "hosts":             {"accu.org"},
		board.Path + "levelling":         robots,
		board.Path + "store":             {"/pub/editions/"},
		board.Path + "batches/" + bad[1]: {strayHost, "Release", "Discard"},
	} {
		operator.see(path, words...)
	}
	operator.ask(http.MethodPost, board.Path+"batches", url.Values{"batch": {bad[1]}, "act": {"release"}, "note": {"it is a copy of a host of ours"}})
	operator.see(board.Path+"batches/"+bad[1], operatorName, "it is a copy of a host of ours")
}

// visitor is somebody with a browser who has logged in.
type visitor struct {
	*testing.T
	at      string // URL of the service
	browser http.Client
}

// logIn fills in the log-in page.
func logIn(t *testing.T, at, name, password string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	testkit.Must(t, err)
	v := &visitor{T: t, at: at, browser: http.Client{Jar: jar}}
	v.ask(http.MethodPost, session.PathLogin, url.Values{"name": {name}, "password": {password}})
	return v
}

// see looks at a page, which must have all of the words.
func (v *visitor) see(path string, words ...string) (page string) {
	v.Helper()
	page = v.ask(http.MethodGet, path, nil)
	for _, word := range words {
		if !strings.Contains(page, word) {
			v.Errorf("%s does not show %q", path, word)
		}
	}
	return page
}

func (v *visitor) ask(method, path string, form url.Values) (page string) {
	v.Helper()
	r, err := http.NewRequestWithContext(v.Context(), method, v.at+path, strings.NewReader(form.Encode()))
	testkit.Must(v, err)
	r.Header.Set("Accept", "text/html")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := v.browser.Do(r)
	testkit.Must(v, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(v, err)
	if resp.StatusCode != http.StatusOK {
		v.Errorf("%s %s answers %s", method, path, resp.Status)
	}
	return string(text)
}
