package whole

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/botauth"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/robotd"
	"sheaf/test/servicetest"
)

// signedRequest is a request as its site has it.
type signedRequest struct {
	URL    string
	Header map[string]string
}

// keySet is the directory of keys as sites have it.
type keySet struct {
	Keys []map[string]any `json:"keys"`
}

// A robot signs every request, and other implementations verify it by the service's directory,
// whose answer they verify too. The keys of a robot that was revoked are gone at once.
func TestSitesRecogniseRobots(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []signedRequest
	listed := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one := signedRequest{"http://" + r.Host + r.URL.String(), map[string]string{}}
		for name := range r.Header {
			one.Header[name] = r.Header.Get(name)
		}
		mu.Lock()
		seen = append(seen, one)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
			fmt.Fprint(w, `<a href=/moved>x</a><a href=/last>x</a>`)
		case "/moved":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "/last":
			select {
			case <-listed:
			case <-r.Context().Done():
			}
		case "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nAllow: /\n")
		default:
			fmt.Fprint(w, "a page")
		}
	}))
	defer web.Close()
	s := servicetest.Start(t, map[string]any{"publish.window": "always"})
	cfg := s.Join("r1", map[string]string{"www.example.jp": strings.TrimPrefix(web.URL, "http://")})
	cfg.Once, cfg.Interval, cfg.Heartbeat, cfg.Identity.Sign = true, time.Millisecond, 20*time.Millisecond, s.At.HTTP
	robot, err := robotd.New(cfg, slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	defer robot.Close()
	testkit.Must(t, robot.Subscribe(t.Context()))
	s.Operate(http.MethodPost, api.PathAdminHosts, manager.HostsRequest{Hosts: []string{"http://www.example.jp/"}}, nil)
	ended := make(chan error, 1)
	go func() { ended <- robot.Cycle(t.Context()) }()

	var keys keySet
	var answer *http.Response
	ask := func() int {
		answer, err = http.Get(s.At.HTTP + botauth.PathDirectory)
		testkit.Must(t, err)
		defer answer.Body.Close()
		keys = keySet{}
		testkit.Must(t, json.NewDecoder(answer.Body).Decode(&keys))
		return len(keys.Keys)
	}
	testkit.Until(t, "the robot's keys in the directory", func() bool { return ask() == 2 })
	close(listed)
	testkit.Must(t, testkit.Receive(t, "the cycle", ended))

	paths := map[string]bool{}
	for _, r := range seen {
		paths[strings.TrimPrefix(r.URL, "http://www.example.jp")] = true
	}
	for _, path := range []string{"/robots.txt", "/", "/moved", "/there", "/last"} {
		if !paths[path] {
			t.Errorf("%s was not visited", path)
		}
	}
	head := map[string]string{}
	for name := range answer.Header {
		head[name] = answer.Header.Get(name)
	}
	noted, err := json.Marshal(map[string]any{"requests": seen, "directory": keys, "head": head, "at": s.At.HTTP + botauth.PathDirectory})
	testkit.Must(t, err)
	t.Run("httpsig-go", func(t *testing.T) { verifies(t, noted, exec.Command(testkit.BuildModule(t, "test/botauth"))) })
	t.Run("npm", func(t *testing.T) {
		script, err := os.ReadFile("testdata/botauth.mjs")
		testkit.Must(t, err)
		dir := testkit.NPM(t, "botauth")
		file := filepath.Join(dir, "botauth.mjs")
		testkit.Must(t, os.WriteFile(file, script, 0o644))
		cmd := exec.Command(testkit.Tool(t, "node"), file)
		cmd.Dir = dir
		verifies(t, noted, cmd)
	})

	resp, err := http.Get(s.At.HTTP + botauth.PathCard)
	testkit.Must(t, err)
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), botauth.PathDirectory) {
		t.Errorf("the card: %s, %v", text, err)
	}
	s.Operate(http.MethodDelete, api.PathAdminRobots+"/r1", nil, nil)
	if n := ask(); n != 0 || answer.Header.Get("Cache-Control") != "public, max-age=1800" {
		t.Errorf("a revoked robot has %d keys in the directory, which may be kept: %s", n, answer.Header.Get("Cache-Control"))
	}
}

// verifies runs a program that ends with an error if a request does not verify.
func verifies(t *testing.T, noted []byte, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stdin = bytes.NewReader(noted)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
