package robotd

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// What becomes of a host by what its robots.txt answers, redirects included.
func TestRobotsAnswers(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	w := newWeb(t, "127.43.0.1", 3, 9, 2)
	redirect := func(to string) *answer { return &answer{http.StatusFound, http.Header{"Location": {to}}, nil} }
	text := func(body string) *answer {
		return &answer{http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, []byte(body)}
	}
	const deny = "User-agent: *\nDisallow: /\n"
	w.tell(func(host, uri string, hit int) *answer {
		switch host + uri {
		case "h0.web.test/robots.txt":
			return &answer{http.StatusNotFound, nil, nil}
		case "h1.web.test/robots.txt":
			return &answer{http.StatusInternalServerError, nil, nil}
		case "h2.web.test/robots.txt":
			return redirect("http://nowhere.test:" + w.port + "/robots.txt")
		case "h3.web.test/robots.txt":
			return redirect("/robots.txt")
		case "h4.web.test/robots.txt":
			return redirect(w.url("h5.web.test", "/robots.txt"))
		case "h5.web.test/robots.txt":
			return text(deny)
		case "h6.web.test/robots.txt":
			return text(strings.Repeat("# filler\n", 60_000) + deny)
		case "h7.web.test/robots.txt":
			return &answer{http.StatusForbidden, nil, nil}
		case "h8.web.test/robots.txt":
			return text("User-agent: otherbot\nDisallow: /\nUser-agent: Sheaf-RobotD/9\nDisallow: /1.html\n")
		}
		return nil
	})
	cfg := testConfig(t, newService(t, w.seeds()...), nil)
	cfg.Interval = 300 * time.Microsecond // a host that fails is given up after some thousand of them
	cfg.Network.Resolver = w.names.LocalAddr().String()
	if err := Run(t.Context(), cfg, testLog(t)); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"h0": 1, "h1": 0, "h2": 0, "h3": 1, "h4": 0, "h5": 0, "h6": 1, "h7": 1, "h8": 0} {
		if n := w.fetched(host+".web.test", "/1.html"); n != want {
			t.Errorf("%s: /1.html was fetched %d times, want %d", host, n, want)
		}
	}
	if n := w.fetched("h8.web.test", "/"); n != 1 {
		t.Errorf("h8: the page that is not forbidden was fetched %d times", n)
	}
	if n := w.fetched("h3.web.test", "/robots.txt"); n != 1+5 {
		t.Errorf("h3: robots.txt was asked for %d times, want one and five redirects", n)
	}
	w.check(cfg.Interval)
}
