package service

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jlaffaye/ftp"

	"sheaf/archive/store/storetest"
	"sheaf/internal/api"
	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// encrypted runs a service with one certificate for all servers.
func encrypted(t *testing.T, settings map[string]any) (s *Service, cert, key string) {
	t.Helper()
	cert, key = testkit.CertificateFiles(t, t.TempDir(), "archive.example.jp")
	all := map[string]any{"tls.cert": cert, "tls.key": key, "poll": "20ms"}
	for k, v := range settings {
		all[k] = v
	}
	return metered(t, all), cert, key
}

// Consumers get HTTP/2, and are told to stay with TLS; FTP has the same certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	curl := testkit.Tool(t, "curl")
	s, cert, _ := encrypted(t, map[string]any{"download.implicit": "127.0.0.1:0"})
	if !strings.HasPrefix(s.Addresses().HTTP, "https://127.0.0.1:") || s.cfg.URL()[:8] != "https://" {
		t.Errorf("the service is at %s", s.Addresses().HTTP)
	}
	dir := t.TempDir()
	for version, option := range map[string]string{"2": "--http2", "1.1": "--http1.1"} {
		got := testkit.Run(t, dir, curl, "-sS", "--cacert", cert, option, "-o", "body", "-D", "head", "-w", "%{http_version}", s.Addresses().HTTP+"/livez")
		head, err := os.ReadFile(dir + "/head")
		testkit.Must(t, err)
		if got != version || !strings.Contains(strings.ToLower(string(head)), "strict-transport-security: max-age=15552000") {
			t.Errorf("HTTP/%s: curl spoke %s: %s", version, got, head)
		}
	}
	for _, addr := range []string{s.Addresses().Download, s.Addresses().Drop} {
		c, err := net.Dial("tcp", addr)
		testkit.Must(t, err)
		defer c.Close()
		text := textproto.NewConn(c)
		_, _, err = text.ReadResponse(220)
		testkit.Must(t, err)
		testkit.Must(t, text.PrintfLine("AUTH TLS"))
		_, _, err = text.ReadResponse(234)
		testkit.Must(t, err)
		testkit.Must(t, tls.Client(c, &tls.Config{RootCAs: trusting(t, cert), ServerName: "archive.example.jp"}).Handshake())
	}
	implicit, err := tls.Dial("tcp", s.Addresses().Implicit, &tls.Config{RootCAs: trusting(t, cert), ServerName: "archive.example.jp"})
	testkit.Must(t, err)
	defer implicit.Close()
	_, _, err = textproto.NewConn(implicit).ReadResponse(220)
	testkit.Must(t, err)

	plain := metered(t, nil)
	resp, err := http.Get(plain.Addresses().HTTP + "/livez")
	testkit.Must(t, err)
	resp.Body.Close()
	if v := resp.Header.Get("Strict-Transport-Security"); v != "" {
		t.Errorf("without TLS the service says %q", v)
	}
}

// trusting returns a pool with the certificate in a file.
func trusting(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

// A certificate that is replaced is served at once, by all servers that have it. Bad files are
// reported where operators look, and harm nobody.
func TestReplacedCertificate(t *testing.T) {
	t.Parallel()
	s, cert, key := encrypted(t, nil)
	old := trusting(t, cert)
	get := func(pool *x509.CertPool) ([]byte, error) {
		c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
		resp, err := c.Get(s.Addresses().HTTP + api.PathHealth)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		return io.ReadAll(resp.Body)
	}
	certificates := func() error { return s.certs.check(t.Context()) }
	expiry := time.Now().Add(30 * 24 * time.Hour).Truncate(time.Second)
	newCert, newKey := testkit.Certificate(t, "archive.example.jp", time.Now().Add(-time.Hour), expiry)

	testkit.Must(t, os.WriteFile(cert, newCert[:200], 0o600))
	testkit.Until(t, "the half-written file is reported", func() bool { return certificates() != nil })
	if _, err := get(old); err != nil {
		t.Errorf("with a half-written file: %v", err)
	}
	testkit.Eventually(t, "health says so", func() error {
		var all Health
		body, err := get(old)
		if err == nil {
			err = json.Unmarshal(body, &all)
		}
		for _, c := range all.Checks {
			if c.Name == checkCertificates && c.Status == healthDown && strings.Contains(c.Detail, "tls.cert") && !strings.Contains(c.Detail, cert) && all.Status == healthDegraded {
				return nil
			}
		}
		return fmt.Errorf("%v: %s", err, body)
	})
	want(t, scrape(t, s), 0, "sheaf_check_up", "check", checkCertificates)

	testkit.Must(t, os.WriteFile(cert, newCert, 0o600))
	testkit.Must(t, os.WriteFile(key, newKey, 0o600))
	testkit.Until(t, "the new one is taken", func() bool { return certificates() == nil })
	if _, err := get(trusting(t, cert)); err != nil {
		t.Error(err)
	}
	if _, err := get(old); err == nil {
		t.Error("the old certificate is still served")
	}
	asked := time.Now()
	left, ok := scrape(t, s).Value("sheaf_certificate_remaining_seconds", "setting", "tls.cert")
	answered := time.Now()
	if most, least := expiry.Sub(asked).Seconds(), expiry.Sub(answered).Seconds(); !ok || left > most || left < least {
		t.Errorf("the certificate has %v s left, want %v to %v", left, least, most)
	}
}

// A certificate that cannot be used at the start is refused by the name of its setting.
func TestBadCertificateAtStart(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	cert, _ := testkit.CertificateFiles(t, t.TempDir(), "one")
	_, key := testkit.CertificateFiles(t, t.TempDir(), "two")
	for _, section := range []string{"tls", "http", "download", "drop"} {
		_, err := begin(t, t.TempDir(), map[string]any{section + ".cert": cert, section + ".key": key})
		wantRefused(t, err, section+".key", key)
	}
}

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
	s, err := New(t.Context(), cfg, cfg.Observe.Log.Logger(&out))
	testkit.Must(t, err)
	serveUntilEnd(t, s)
	ask := func(id, body string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Addresses().HTTP+api.PathAdminTakedowns, strings.NewReader(body))
		testkit.Must(t, err)
		r.Header.Set("Authorization", "Bearer "+s.OperatorToken())
		r.Header.Set(problem.HeaderRequest, id)
		answer, err := http.DefaultClient.Do(r)
		testkit.Must(t, err)
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}

	const id = "proxy-7.1"
	answer := ask(id, `{"host":"www.example.jp","reason":"its owner asks","unknown":true}`)
	if answer.StatusCode != http.StatusOK || answer.Header.Get(problem.HeaderRequest) != id {
		t.Errorf("%s, request %q", answer.Status, answer.Header.Get(problem.HeaderRequest))
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
	if made := answer.Header.Get(problem.HeaderRequest); p.Request != made || len(made) != len(peer.NewID()) {
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
		id := r.In.Header.Get(problem.HeaderRequest)
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

// A proxy's ID is kept, anybody else's and a bad one is replaced, and the answer says which it is.
func TestWhoseIDIsBelieved(t *testing.T) {
	t.Parallel()
	proxies, err := peer.ParseProxies([]string{"192.0.2.1"})
	testkit.Must(t, err)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for name, c := range map[string]struct {
		remote string
		header http.Header
		want   string // empty: one that is made
	}{
		"from a proxy":        {"192.0.2.1:5", http.Header{"X-Request-Id": {"abc-1.2:3"}}, "abc-1.2:3"},
		"a trace":             {"192.0.2.1:5", http.Header{"Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}}, trace},
		"both":                {"192.0.2.1:5", http.Header{"X-Request-Id": {"abc"}, "Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}}, "abc"},
		"a later version":     {"192.0.2.1:5", http.Header{"Traceparent": {"cc-" + trace + "-00f067aa0ba902b7-01-more"}}, trace},
		"a client's own":      {"192.0.2.9:5", http.Header{"X-Request-Id": {"abc"}}, ""},
		"a client's trace":    {"192.0.2.9:5", http.Header{"Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}}, ""},
		"nothing":             {"192.0.2.1:5", nil, ""},
		"empty":               {"192.0.2.1:5", http.Header{"X-Request-Id": {""}}, ""},
		"long":                {"192.0.2.1:5", http.Header{"X-Request-Id": {strings.Repeat("a", 129)}}, ""},
		"a line break":        {"192.0.2.1:5", http.Header{"X-Request-Id": {"a\nlevel=ERROR"}}, ""},
		"a control character": {"192.0.2.1:5", http.Header{"X-Request-Id": {"a\x1b[2J"}}, ""},
		"no ASCII":            {"192.0.2.1:5", http.Header{"X-Request-Id": {"東"}}, ""},
		"two":                 {"192.0.2.1:5", http.Header{"X-Request-Id": {"a", "b"}}, ""},
		"an empty trace":      {"192.0.2.1:5", http.Header{"Traceparent": {"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01"}}, ""},
		"a forbidden version": {"192.0.2.1:5", http.Header{"Traceparent": {"ff-" + trace + "-00f067aa0ba902b7-01"}}, ""},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.remote
		r.Header = c.header
		var seen string
		w := httptest.NewRecorder()
		proxies.Handler(requestIDs(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen = peer.Request(r.Context())
		}))).ServeHTTP(w, r)
		answered := w.Header().Get(problem.HeaderRequest)
		if made := len(seen) == len(peer.NewID()) && seen != c.header.Get(problem.HeaderRequest); seen != answered || c.want != "" && seen != c.want || c.want == "" && !made {
			t.Errorf("%s: the ID is %q in the service and %q in the answer, want %q", name, seen, answered, c.want)
		}
	}
}
