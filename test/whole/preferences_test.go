package whole

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/mirror"
	"sheaf/test/servicetest"
)

// sources are the places where an owner can ask something, each with the name and value by which it
// is found. Their host is askedSources.
var sources = []struct {
	path, header, head, body string
	name, value              string
}{
	{"/h/usage", "Content-Usage: train-ai=n", "", "", "content-usage", "train-ai=n"},
	{"/h/signal", "Content-Signal: search=yes,ai-train=no,brew=tea", "", "", "content-signal", "search=yes,ai-train=no,brew=tea"},
	{"/h/robots", "X-Robots-Tag: noai", "", "", "x-robots-tag", "noai"},
	{"/h/tdm", "TDM-Reservation: 1", "", "", "tdm-reservation", "1"},
	{"/h/policy", "TDM-Policy: https://sources.example.jp/p.json", "", "", "tdm-policy", "https://sources.example.jp/p.json"},
	{"/h/price", "Crawler-Price: USD 0.01", "", "", "crawler-price", "USD 0.01"},
	{"/h/licence", `Link: </l.xml>; rel="license"; type="application/rsl+xml"`, "", "", "license", "/l.xml"},
	{"/m/robots", "", `<meta name="robots" content="noarchive-not">`, "", "robots", "noarchive-not"},
	{"/m/tdm", "", `<meta name="tdm-reservation" content="1">`, "", "tdm-reservation", "1"},
	{"/m/policy", "", `<meta name="tdm-policy" content="/p.json">`, "", "tdm-policy", "/p.json"},
	{"/e/licence", "", `<link rel="license" type="application/rsl+xml" href="/l.xml">`, "", "license", "/l.xml"},
	{"/s/licence", "", `<script type="application/rsl+xml"><rsl/></script>`, "", "license", "<rsl/>"},
	{"/.well-known/tdmrep.json", "", "", `[{"location":"/","tdm-reservation":1}]`, "tdm-reservation", "1"},
}

const askedSources = "sources.example.jp"

// serveSource answers for the host of the sources.
func serveSource(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	for _, s := range sources {
		switch {
		case r.URL.Path == "/":
			fmt.Fprintf(w, "<a href=%s>x</a>", s.path)
		case r.URL.Path == s.path && s.body != "":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, s.body)
		case r.URL.Path == s.path:
			if name, value, ok := strings.Cut(s.header, ": "); ok {
				w.Header().Set(name, value)
			}
			fmt.Fprintf(w, "<head>%s<title>%s</title></head>", s.head, s.path)
		}
	}
	if r.URL.Path == "/robots.txt" {
		http.NotFound(w, r)
	}
}

// What owners ask of those who use their pages comes from their servers, by a robot, to the
// records, the queries, the table and the change feed. A mirror that honours it leaves the host
// out.
func TestPreferences(t *testing.T) {
	t.Parallel()
	const asks, open = "asks.example.jp", "open.example.jp"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.Host == asks
		switch {
		case r.Host == askedSources:
			serveSource(w, r)
		case r.URL.Path == "/robots.txt" && asked:
			w.Header().Set("X-Robots-Tag", "noai")
			w.Header().Set("TDM-Reservation", "1")
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
	robot := s.CollectOnce("r1", time.Millisecond, map[string]string{asks: at, open: at, askedSources: at})
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
	const ofHost = "content-usage=train-ai=n; content-signal=search=yes,ai-train=no; x-robots-tag=noai; tdm-reservation=1; license=https://asks.example.jp/licence.xml"
	const query = api.PathCDX + "?url=*.example.jp&output=text&fl=url,preferences"
	for filter, want := range map[string]string{
		"&preference=content-usage:train-ai=n&preference=license":    "http://asks.example.jp/robots.txt " + ofHost + "\n",
		"&preference=x-robots-tag&preference=robots":                 "http://asks.example.jp/ x-robots-tag=noai; robots=max-snippet:50\n",
		"&preference=robots:max&preference=!x-robots-tag":            "http://open.example.jp/ robots=max-snippet:50\n",
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
	checkSources(t, ask)
	changes, err := s.Changes(t.Context(), api.Cursor{}, api.Selection{}, 100, 0)
	testkit.Must(t, err)
	told := map[string]string{}
	for _, e := range changes.Events {
		told[e.Host] = e.Preferences
	}
	if told[asks] != ofHost || told[open] != "-" {
		t.Errorf("the feed tells %q", told)
	}

	for _, honoured := range []string{"content-usage:train-ai=n", "content-signal:ai-train=no", "x-robots-tag:noai", "tdm-reservation:1", "license"} {
		dir := t.TempDir()
		sum, err := mirror.Run(t.Context(), mirror.Options{URL: s.At.HTTP, Dir: dir, Once: true, Honour: []string{honoured}})
		if err != nil || sum.Fetched != 2 {
			t.Errorf("%s: mirrored: %+v, %v", honoured, sum, err)
		}
		for host, want := range map[string]bool{"asks": false, "open": true} {
			if _, err := os.Stat(filepath.Join(dir, "jp/example", host)); (err == nil) != want {
				t.Errorf("%s: %s: %v", honoured, host, err)
			}
		}
	}
}

// checkSources checks that what is asked in each of the sources is found by the filter, and stands
// in its column and in no other.
func checkSources(t *testing.T, ask func(path string) string) {
	t.Helper()
	type columns struct {
		URL            string `parquet:"url"`
		ContentUsage   string `parquet:"content_usage,optional"`
		ContentSignal  string `parquet:"content_signal,optional"`
		RobotsTag      string `parquet:"x_robots_tag,optional"`
		RobotsMeta     string `parquet:"robots_meta,optional"`
		TDMReservation string `parquet:"tdm_reservation,optional"`
		TDMPolicy      string `parquet:"tdm_policy,optional"`
		CrawlerPrice   string `parquet:"crawler_price,optional"`
		License        string `parquet:"license,optional"`
	}
	table := ask(api.PathTables + "records.parquet?url=" + askedSources + "/*")
	rows, err := parquet.Read[columns](strings.NewReader(table), int64(len(table)))
	testkit.Must(t, err)
	in := map[string]columns{}
	for _, r := range rows {
		in[r.URL] = r
	}
	for _, s := range sources {
		page := "http://" + askedSources + s.path
		want := columns{URL: page}
		*map[string]*string{
			"content-usage": &want.ContentUsage, "content-signal": &want.ContentSignal, "x-robots-tag": &want.RobotsTag, "robots": &want.RobotsMeta,
			"tdm-reservation": &want.TDMReservation, "tdm-policy": &want.TDMPolicy, "crawler-price": &want.CrawlerPrice, "license": &want.License,
		}[s.name] = s.value
		if in[page] != want {
			t.Errorf("%s: the table has %+v, want %+v", s.path, in[page], want)
		}
		filter := url.Values{"url": {page}, "output": {"text"}, "fl": {"url"}, "preference": {s.name + ":" + s.value}}
		if got := ask(api.PathCDX + "?" + filter.Encode()); got != page+"\n" {
			t.Errorf("%s: the filter %q finds %q", s.path, filter.Get("preference"), got)
		}
	}
}
