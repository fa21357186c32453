package robotd

import (
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// The whole robot: a server that takes a request and says nothing holds up neither the
// other hosts nor, once it answers, its own pages.
func TestStalledHost(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	w := newWeb(t, "127.42.0.1", 2, 2, 5)
	quiet := make(chan struct{})
	t.Cleanup(func() { close(quiet) })
	w.tell(func(host, uri string, hit int) *answer {
		if host == "h0.web.test" && uri == "/2.html" && hit == 1 {
			<-quiet
		}
		return nil
	})
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Network.Resolver = w.names.LocalAddr().String()
	cfg.Page.Stall = testkit.Slower * 200 * time.Millisecond // long enough for the other answers
	if err := Run(t.Context(), cfg, testLog(t)); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"h0.web.test", "h1.web.test"} {
		for _, uri := range []string{"/1.html", "/3.html", "/4.html"} {
			if w.fetched(host, uri) != 1 {
				t.Errorf("%s%s was fetched %d times", host, uri, w.fetched(host, uri))
			}
		}
	}
	if n := w.fetched("h0.web.test", "/2.html"); n != 2 {
		t.Errorf("the page that hung was fetched %d times, want 2", n)
	}
}
