package whole

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/robotd"
	"sheaf/serve/watch"
	"sheaf/test/servicetest"
)

const (
	host = "www.site.example.jp"
	base = "http://" + host
)

// newsSite is a web server with a page that changes and a form.
type newsSite struct {
	mu    sync.Mutex
	words string
	posts []string // fields that were sent to the form
}

func (s *newsSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	switch {
	case r.URL.Path == "/":
		io.WriteString(w, "<title>top</title><p>it never changes")
	case r.URL.Path == "/news.html":
		fmt.Fprintf(w, "<title>news</title><p>today %s was seen", s.words)
	case r.URL.Path == "/search" && r.Method == http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		s.posts = append(s.posts, r.Header.Get("Content-Type")+" "+string(body))
		fmt.Fprintf(w, "<title>found</title><p>results for %s: %s", body, s.words)
	default:
		http.NotFound(w, r)
	}
}

func (s *newsSite) say(words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words = words
}

// consumer receives the notices.
type consumer struct {
	t        *testing.T
	url      string
	password string
	hook     *httptest.Server
	mu       sync.Mutex
	told     []watch.Notice
	calls    []call
}

// call is one call of the webhook.
type call struct {
	header http.Header
	body   []byte
}

func (c *consumer) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var doc struct{ Data watch.Notice }
	if err := errors.Join(err, json.Unmarshal(body, &doc)); err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told, c.calls = append(c.told, doc.Data), append(c.calls, call{r.Header, body})
}

func (c *consumer) do(method, url string, body any) (int, string) {
	c.t.Helper()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, url, in)
	if err != nil {
		c.t.Fatal(err)
	}
	req.SetBasicAuth("c1", c.password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// wait gives the notices once there are n.
func (c *consumer) wait(n int) []watch.Notice {
	c.t.Helper()
	var told []watch.Notice
	testkit.Eventually(c.t, "the notices", func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if told = c.told; len(told) < n {
			return fmt.Errorf("%d came, want %d: %+v", len(told), n, told)
		}
		return nil
	})
	return told
}

func TestNoticeOfAChange(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	pages := &newsSite{words: "a crane"}
	web := httptest.NewServer(pages)
	defer web.Close()
	c := &consumer{t: t}
	c.hook = httptest.NewServer(c)
	defer c.hook.Close()
	robot := startWatch(t, c, web.Listener.Addr().String())
	ctx, stop := context.WithCancel(t.Context())
	var draining sync.WaitGroup
	defer draining.Wait()
	defer stop()
	collected := make(chan struct{}, 10)
	draining.Go(func() {
		for range collected {
			robot.Drain(ctx)
		}
	})
	defer close(collected)
	cycle := func() {
		t.Helper()
		testkit.Must(t, robot.Cycle(t.Context()))
		collected <- struct{}{}
	}

	// No link leads to the page and the form: they are visited because they are watched.
	for _, wish := range []watch.Wish{{URL: base + "/news.html", Webhook: c.hook.URL}, {URL: base + "/search", Body: "q=crane", Webhook: c.hook.URL}} {
		if status, text := c.do(http.MethodPost, c.url+"/v1/watches", wish); status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
	}
	cycle()
	for _, n := range c.wait(2) {
		if n.What != watch.PageNew {
			t.Errorf("%+v", n)
		}
	}
	cycle()
	pages.say("a tortoise")
	second := time.Now().Unix()
	testkit.Until(t, "the next second, as links tell versions apart by it", func() bool { return time.Now().Unix() > second })
	cycle()
	told := c.wait(4)
	if len(told) > 4 {
		t.Errorf("more was told than changed: %+v", told)
	}
	form := base + "/search?__wb_method=POST&q=crane"
	for _, n := range told[2:] {
		if n.What != watch.PageChanged || n.URL != base+"/news.html" && n.URL != form {
			t.Errorf("%+v", n)
		}
		status, text := c.do(http.MethodGet, strings.Replace(n.Page, "/http", "id_/http", 1), nil)
		if status != http.StatusOK || !strings.Contains(text, "a tortoise") {
			t.Errorf("%s: %d %s", n.Page, status, text)
		}
		if status, text := c.do(http.MethodGet, n.Diff, nil); status != http.StatusOK || !strings.Contains(text, "tortoise") || !strings.Contains(text, "crane") {
			t.Errorf("%s: %d %.500s", n.Diff, status, text)
		}
	}
	if status, text := c.do(http.MethodGet, c.url+"/v1/watches.atom", nil); status != http.StatusOK || strings.Count(text, "<entry>") != 4 {
		t.Errorf("%d %s", status, text)
	}
	pages.mu.Lock()
	defer pages.mu.Unlock()
	for _, p := range pages.posts {
		if p != "application/x-www-form-urlencoded q=crane" {
			t.Errorf("the form was sent %q", p)
		}
	}
	if len(pages.posts) != 3 {
		t.Errorf("the form was sent %d times in three cycles", len(pages.posts))
	}
}

// startWatch starts a service that publishes only when told to, a robot with one host, and a
// consumer's account.
func startWatch(t *testing.T, c *consumer, web string) *robotd.Robot {
	t.Helper()
	settings := servicetest.Quiet()
	settings["watch.private_webhooks"] = true
	s := servicetest.Start(t, settings)
	c.url, c.password = s.At.HTTP, s.Consumer("c1")
	return s.Robot("r1", host, web)
}
