package whole

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/mirror"
	"sheaf/test/servicetest"
)

// What owners ask of those who use their pages comes from their servers, by a robot, to the
// records, the queries, the table and the change feed. A mirror that honours it leaves the host
// out.
func TestPreferences(t *testing.T) {
	t.Parallel()
	const asks, open = "asks.example.jp", "open.example.jp"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.Host == asks
		switch {
		case r.URL.Path == "/robots.txt" && asked:
			fmt.Fprint(w, "User-agent: *\nDisallow: /cgi-bin/\nContent-Usage: train-ai=n\nContent-Signal: search=yes,ai-train=no\nLicense: https://"+asks+"/licence.xml\n")
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "text/html")
			if asked {
				w.Header().Set("X-Robots-Tag", "noai")
			}
			fmt.Fprint(w, `<head><meta name="robots" content="max-snippet:50"></head><a href=/plain.txt>x</a>`)
		default:
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprintf(w, "plain text of %s", r.Host)
		}
	}))
	defer web.Close()
	at := strings.TrimPrefix(web.URL, "http://")
	s := servicetest.Start(t, map[string]any{"access.anonymous": "*", "publish.window": "always"})
	robot := s.CollectOnce("r1", time.Millisecond, map[string]string{asks: at, open: at})
	testkit.Must(t, robot.Cycle(t.Context()))
	testkit.Must(t, robot.Drain(t.Context())) // until it is published

	ask := func(path string) string {
		t.Helper()
		resp, err := http.Get(s.At.HTTP + path)
		testkit.Must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		testkit.Must(t, err)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s: %s", path, resp.Status, text)
		}
		return string(text)
	}
	const query = api.PathCDX + "?url=*.example.jp&output=text&fl=url,preferences"
	for filter, want := range map[string]string{
		"&preference=content-usage:train-ai=n":                       "http://asks.example.jp/robots.txt content-usage=train-ai=n; content-signal=search=yes,ai-train=no; license=https://asks.example.jp/licence.xml\n",
		"&preference=x-robots-tag":                                   "http://asks.example.jp/ x-robots-tag=noai; robots=max-snippet:50\n",
		"&preference=robots&preference=!x-robots-tag":                "http://open.example.jp/ robots=max-snippet:50\n",
		"&preference=!any&filter==url:http://" + open + "/plain.txt": "http://open.example.jp/plain.txt -\n",
	} {
		if got := ask(query + filter); got != want {
			t.Errorf("%s: %q, want %q", filter, got, want)
		}
	}
	if got := ask(api.PathCDX + "?url=" + open + "/robots.txt&output=text&fl=status"); got != "404\n" {
		t.Errorf("robots.txt that was not found: %q", got)
	}
	if warc := inflated(t, []byte(ask(api.PathPages+".warc.gz?url="+asks+"/"))); !strings.Contains(warc, "\r\nX-Crawler-Preferences: x-robots-tag=noai; robots=max-snippet:50\r\n") {
		t.Errorf("the WARC record does not say it: %.800s", warc)
	}
	if table := ask(api.PathTables + "records.parquet?url=*.example.jp"); !strings.Contains(table, "content_usage") {
		t.Error("the table has no such column")
	}
	changes, err := s.Changes(t.Context(), api.Cursor{}, api.Selection{}, 100, 0)
	testkit.Must(t, err)
	told := map[string]string{}
	for _, e := range changes.Events {
		told[e.Host] = e.Preferences
	}
	if told[asks] != "content-usage=train-ai=n; content-signal=search=yes,ai-train=no; license=https://asks.example.jp/licence.xml" || told[open] != "-" {
		t.Errorf("the feed tells %q", told)
	}

	dir := t.TempDir()
	sum, err := mirror.Run(t.Context(), mirror.Options{URL: s.At.HTTP, Dir: dir, Once: true, Honour: []string{"content-usage:train-ai=n"}})
	if err != nil || sum.Fetched != 1 {
		t.Errorf("mirrored: %+v, %v", sum, err)
	}
	for host, want := range map[string]bool{"asks": false, "open": true} {
		if _, err := os.Stat(filepath.Join(dir, "jp/example", host)); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}
