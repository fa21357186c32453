package service

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jlaffaye/ftp"

	"sheaf/archive/store/storetest"
	"sheaf/internal/api"
	"sheaf/internal/peer"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// lockedLog is a log that is written and read at once.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// line is what a test looks at in a line of the log.
type line struct{ Msg, Request, Operation, Object, Command string }

func (l *lockedLog) lines(t *testing.T) (all []line) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range strings.Lines(l.text.String()) {
		var one line
		testkit.Must(t, json.Unmarshal([]byte(text), &one))
		all = append(all, one)
	}
	return all
}

// A request keeps the ID that a proxy gave it: in the lines of the store's operations, in what the
// object store is asked, in the answer, and in what the answer says of an error.
func TestRequestKeepsItsID(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	var out lockedLog
	settings, asked := recordedStore(t)
	settings["data"] = t.TempDir()
	settings["http.proxies"], settings["log.format"], settings["log.level"] = "127.0.0.0/8", "json", "debug"
	settings["access.anonymous"], settings["download.listen"], settings["balance.at"] = "jp", "127.0.0.1:0", ""
	cfg := testConfig(t, settings)
	s, err := New(t.Context(), cfg, cfg.Observe.Log.New(&out))
	testkit.Must(t, err)
	serveUntilEnd(t, s)
	ask := func(id, body string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Addresses().HTTP+api.PathAdminTakedowns, strings.NewReader(body))
		testkit.Must(t, err)
		r.Header.Set("Authorization", "Bearer "+s.OperatorToken())
		r.Header.Set(wire.HeaderRequest, id)
		answer, err := http.DefaultClient.Do(r)
		testkit.Must(t, err)
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}

	const id = "proxy-7.1"
	answer := ask(id, `{"host":"www.example.jp","reason":"its owner asks","unknown":true}`)
	if answer.StatusCode != http.StatusOK || answer.Header.Get(wire.HeaderRequest) != id {
		t.Errorf("%s, request %q", answer.Status, answer.Header.Get(wire.HeaderRequest))
	}
	counts := map[string]int{}
	for _, l := range out.lines(t) {
		if l.Request == id {
			counts[l.Msg+" "+l.Operation]++
		}
		if strings.HasPrefix(l.Msg, "operator ") && l.Request != id {
			t.Errorf("the line %+v has not the request's ID", l)
		}
	}
	if counts["store: done put"] == 0 || len(counts) < 2 {
		t.Errorf("the request's lines are %v", counts)
	}
	if asked(id)[http.MethodPut] == 0 {
		t.Errorf("the object store was asked %v under the request's ID", asked(id))
	}

	answer = ask("bad id", `{"host":"www.example.jp"`)
	var p wire.Problem
	testkit.Must(t, json.NewDecoder(answer.Body).Decode(&p))
	if made := answer.Header.Get(wire.HeaderRequest); p.Request != made || len(made) != len(peer.NewID()) {
		t.Errorf("the problem is of request %q, the answer of %q; want one that was made", p.Request, made)
	}

	c, err := ftp.Dial(s.Addresses().Download)
	testkit.Must(t, err)
	testkit.Must(t, c.Login("anonymous", "a@example.jp"))
	_, err = c.NameList("/")
	testkit.Must(t, err)
	testkit.Must(t, c.Quit())
	seen := map[string]string{}
	for _, l := range out.lines(t) {
		if l.Command != "" {
			seen[l.Command] = l.Request
		}
	}
	session, _, _ := strings.Cut(seen["USER"], ".")
	if session == "" || seen["USER"] != session+".1" || !strings.HasPrefix(seen["NLST"], session+".") || seen["NLST"] == seen["USER"] {
		t.Errorf("the requests of the session's commands are %v", seen)
	}
}

// recordedStore returns the settings of a store in a bucket, and a function that returns how often
// each method was asked of it under a request's ID.
func recordedStore(t *testing.T) (settings map[string]any, asked func(id string) map[string]int) {
	t.Helper()
	o := storetest.StartVersity(t).Options(t)
	to, err := url.Parse(o.Endpoint)
	testkit.Must(t, err)
	var mu sync.Mutex
	byID := map[string]map[string]int{}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		id := r.In.Header.Get(wire.HeaderRequest)
		mu.Lock()
		defer mu.Unlock()
		if byID[id] == nil {
			byID[id] = map[string]int{}
		}
		byID[id][r.In.Method]++
		r.SetURL(to)
		r.Out.Host = r.In.Host // the signature has it
	}}
	server := httptest.NewServer(forward)
	t.Cleanup(server.Close)
	settings = map[string]any{"store.kind": "s3", "store.endpoint": server.URL, "store.bucket": o.Bucket, "store.access_key": o.AccessKey, "store.secret_key": o.SecretKey}
	return settings, func(id string) map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return byID[id]
	}
}
