package httpd_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/passwords"
	"sheaf/internal/testkit"
)

// ask makes a request with the password given, and returns the answer with its body read.
func (s site) ask(t *testing.T, method, path, account, password, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	testkit.Must(t, err)
	req.SetBasicAuth(account, password)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	testkit.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return resp, string(text)
}

// Of 120 wrong passwords at once only a few are checked. The others are told when to come again.
// Another account can still log in from the same address, and so can the same account if it has
// logged in before.
func TestParallelGuesses(t *testing.T) {
	s := newSite(t)
	s.ask(t, "GET", "/v1/version", "jp", "jp", "")
	begun := time.Now()
	statuses := make(chan int)
	for i := range 120 {
		go func() {
			resp, _ := s.ask(t, "GET", "/v1/version", "jp", fmt.Sprint("guess ", i), "")
			if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "" {
				t.Error("429 says no time")
			}
			statuses <- resp.StatusCode
		}()
	}
	count := map[int]int{}
	for range 120 {
		count[testkit.Receive(t, "an answer", statuses)]++
	}
	// Another guess becomes free with each period that passes meanwhile.
	most := passwords.Burst + int(time.Since(begun)/passwords.Every)
	if looked := count[401]; looked < passwords.Burst || looked > most || looked+count[429] != 120 {
		t.Errorf("answers: %v, want %d to %d of 401 and else 429", count, passwords.Burst, most)
	}
	for _, account := range []string{"keio", "jp"} {
		if resp, _ := s.ask(t, "GET", "/v1/version", account, account, ""); resp.StatusCode != http.StatusOK {
			t.Errorf("%s is kept out: %s", account, resp.Status)
		}
	}
}

// A page of another site cannot change anything with the password that its visitor has typed into
// this site.
func TestCrossSiteRequests(t *testing.T) {
	s, watches := watchSite(t)
	const wish = `{"host": "www.keio.ac.jp"}`
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		want               int
	}{
		"form":             {"POST", "/v1/watches", wish, []string{"Origin", "https://evil.test", "Content-Type", "text/plain"}, 403},
		"fetch":            {"POST", "/v1/watches", wish, []string{"Origin", "https://evil.test", "Sec-Fetch-Site", "cross-site", "Content-Type", "application/json"}, 403},
		"sandboxed":        {"POST", "/v1/watches", wish, []string{"Origin", "null"}, 403},
		"delete":           {"DELETE", "/v1/watches/w1", "", []string{"Origin", "https://evil.test"}, 403},
		"job":              {"POST", "/v1/pages.tar.gz?url=" + host, "", []string{"Origin", "https://evil.test"}, 403},
		"account":          {"POST", api.PathAdminAccounts, `{}`, []string{"Origin", "https://evil.test"}, 403},
		"wrong type":       {"POST", "/v1/watches", wish, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"account, no JSON": {"POST", api.PathAdminAccounts, `{}`, []string{"Content-Type", "text/plain"}, 415},
		"reading":          {"GET", "/v1/version", "", []string{"Origin", "https://evil.test", "Sec-Fetch-Site", "cross-site"}, 200},
		"no such watch":    {"DELETE", "/v1/watches/w1", "", nil, 404},
	} {
		if resp, body := s.ask(t, c.method, c.path, "jp", "jp", c.body, c.header...); resp.StatusCode != c.want {
			t.Errorf("%s: %s, want %d: %s", name, resp.Status, c.want, body)
		}
	}
	if list, err := watches.List(t.Context(), "jp"); err != nil || len(list) != 0 {
		t.Errorf("%d watches, %v", len(list), err)
	}
	for name, header := range map[string][]string{
		"own page": {"Origin", s.url, "Content-Type", "application/json; charset=utf-8"},
		"program":  {"Content-Type", "application/json"},
	} {
		if resp, body := s.ask(t, "POST", "/v1/watches", "jp", "jp", wish, header...); resp.StatusCode != 201 {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
	}
}

// slowReader takes nothing of an answer until let is closed. It tells when the answer begins.
type slowReader struct {
	*httptest.ResponseRecorder
	begins chan<- struct{}
	let    <-chan struct{}
	once   sync.Once
}

func (s *slowReader) Write(p []byte) (int, error) {
	s.once.Do(func() { s.begins <- struct{}{} })
	<-s.let
	return len(p), nil
}

// slowBody sends one letter, and the rest when let is closed.
type slowBody struct {
	waits chan<- struct{}
	let   <-chan struct{}
	sent  bool
}

func (s *slowBody) Read(p []byte) (int, error) {
	if !s.sent {
		s.sent = true
		return copy(p, "w"), nil
	}
	s.waits <- struct{}{}
	<-s.let
	return 0, io.EOF
}

// Clients that read their answers slowly, or send their lists slowly, keep nobody else from asking,
// not even their own account.
func TestSlowClientsKeepNoPlace(t *testing.T) {
	s := newSite(t)
	const crowd = 20 // more than one account's places of each kind
	target := "?url=" + host + "&matchType=host"
	for _, request := range []struct{ method, path string }{
		{"GET", api.PathCDX + target}, {"GET", api.PathCDX + target + "&showNumPages=true"}, {"GET", api.PathCoverage + target},
		{"GET", api.PathPages + ".tar.gz" + target}, {"GET", api.PathTables + api.TableOfRecords + target}, {"GET", api.PathTables + api.TableOfHosts + target},
		{"GET", api.PathChanges + "?since=0&wait=300"}, {"POST", api.PathCDX}, {"POST", api.PathCoverage},
	} {
		let, slow := make(chan struct{}), make(chan struct{})
		var running sync.WaitGroup
		for range crowd {
			req := httptest.NewRequest(request.method, request.path, nil)
			req.SetBasicAuth("jp", "jp")
			var w http.ResponseWriter = &slowReader{ResponseRecorder: httptest.NewRecorder(), begins: slow, let: let}
			if request.method == "POST" {
				req.Body, w = io.NopCloser(&slowBody{waits: slow, let: let}), httptest.NewRecorder()
			}
			running.Go(func() { s.handler.ServeHTTP(w, req) })
			testkit.Receive(t, "a slow client of "+request.path, slow)
		}
		quick := httptest.NewRecorder()
		req := httptest.NewRequest(request.method, request.path, strings.NewReader(host))
		req.SetBasicAuth("jp", "jp")
		s.handler.ServeHTTP(quick, req)
		if quick.Code != http.StatusOK && quick.Code != http.StatusAccepted || quick.Body.Len() == 0 {
			t.Errorf("%s %s beside slow clients: %d %s", request.method, request.path, quick.Code, quick.Body)
		}
		close(let)
		running.Wait()
	}
}

// One account cannot hold any number of requests that wait for changes.
func TestPollsAreBounded(t *testing.T) {
	s := newSite(t)
	page, _ := s.changes(t, "jp", api.PathChanges)
	waiting := fmt.Sprintf("%s?since=%d&wait=300", api.PathChanges, page.Last)
	var refused atomic.Pointer[http.Response]
	ended := make(chan struct{}, 100)
	for range 40 {
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", s.url+waiting, nil)
			req.SetBasicAuth("jp", "jp")
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
				refused.Store(resp)
				ended <- struct{}{}
			}
		}()
	}
	for range 40 - 16 {
		testkit.Receive(t, "a request that is turned away", ended)
	}
	if resp := refused.Load(); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	if resp, _ := s.ask(t, "GET", waiting[:strings.Index(waiting, "&")], "jp", "jp", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("who does not wait is turned away: %s", resp.Status)
	}
	select {
	case <-ended:
		t.Errorf("one more was answered: %s", refused.Load().Status)
	case <-time.After(10 * time.Millisecond):
	}
}
