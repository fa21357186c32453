// Package replay reads stored pages in a real browser.
package replay

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/gorilla/mux"
	"golang.org/x/text/encoding/japanese"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/serve/httpd"
	"sheaf/serve/httpd/web"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

const (
	host  = "www.example.jp"
	prose = "日本語のページです。漢字かな交じり文で、カタカナも混ぜて、文字コードの判別に足りる長さにしてあります。"
	// gif is an image of one pixel.
	gif = "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
)

var then = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { testkit.Main(m) }

// site serves records, logs the browser in, and returns the service's address. If replayDir is
// given, ReplayWeb.page runs at the address that replayOrigin returns.
func site(t *testing.T, browser context.Context, replayDir string, records ...*archive.Record) string {
	t.Helper()
	s := servetest.New(t, nil)
	s.Account("reader", "always", "jp")
	s.Publish("20261121", map[string][]*archive.Record{host: records})
	router := mux.NewRouter()
	server := httptest.NewUnstartedServer(nil)
	origin := replayOrigin("http://" + server.Listener.Addr().String())
	err := httpd.Register(router, httpd.Options{
		Library: s.Library, Accounts: s.Accounts, Recorder: s.Log, Replay: replayDir, ReplayOrigin: origin,
		Gate: operatorstest.Open,
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = web.Only(origin, router)
	server.Start()
	t.Cleanup(server.Close)
	logins := []string{server.URL + "/v1/version"}
	if replayDir != "" {
		logins = append(logins, origin+"/replay/sw.js")
	}
	for _, login := range logins {
		if err := chromedp.Run(browser, chromedp.Navigate(strings.Replace(login, "http://", "http://reader:reader@", 1))); err != nil {
			t.Fatal(err)
		}
	}
	return server.URL
}

// replayOrigin returns another name of a service on this machine, which browsers treat like HTTPS.
func replayOrigin(base string) string { return strings.Replace(base, "127.0.0.1", "localhost", 1) }

// outside is the rest of the web. It counts visits.
func outside(t *testing.T) (url string, visits *atomic.Int64, last *atomic.Value) {
	t.Helper()
	visits, last = new(atomic.Int64), new(atomic.Value)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		visits.Add(1)
		last.Store(r.URL.Path)
	}))
	t.Cleanup(server.Close)
	return server.URL, visits, last
}

func record(path, media, body string) *archive.Record {
	return &archive.Record{
		Kind: archive.Page, URL: "http://" + host + path, Time: then,
		HTTP: []byte("HTTP/1.1 200 OK\r\nContent-Type: " + media + "\r\n\r\n"), Body: strings.NewReader(body),
	}
}

// wanting returns a page that requests everything that it must not get.
func wanting(outside string) string {
	page := `<html><head><title>as it was</title><meta http-equiv=refresh content="0;url=OUT/refresh">
<link rel=stylesheet href=s.css><link rel=preload as=image href=OUT/preload><link rel=stylesheet href=OUT/css><link rel=icon href=OUT/icon>
<style>@import "OUT/import"; b{background:u\72l(OUT/escaped)} i{background:url(OUT/style)} @font-face{font-family:f;src:url(OUT/font)} b{font-family:f}</style>
<script src=OUT/js></script><script>document.title="a script ran"; new Image().src="OUT/script"</script></head>
<body onload="document.title='a handler ran'"><p id=text>` + prose + `</p><b>b</b><i style="background:url(OUT/attr)">i</i>
<img id=own src=i.gif onerror="document.title='a handler ran'"><img src=OUT/img srcset="OUT/set 1x"><iframe src=OUT/frame></iframe><object data=OUT/object></object>
<embed src=OUT/embed><video poster=OUT/poster autoplay><source src=OUT/video></video><svg><image href=OUT/svg /></svg><input type=image src=OUT/input>
<iframe srcdoc="<img src='OUT/srcdoc'><script>parent.document.title='a frame ran'</script>"></iframe><a id=next href="/next.html" ping=OUT/ping>next</a>
<form id=f action=OUT/form><input name=a><button id=go>go</button></form></body></html>`
	return strings.ReplaceAll(page, "OUT", outside)
}

// look navigates, and evaluates an expression until it has the wanted value.
func look(t *testing.T, ctx context.Context, url, expression, want string) {
	t.Helper()
	if err := chromedp.Run(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	testkit.Watch(t, ctx, expression, want)
}

// A page is shown with its own parts, in its own encoding, to a reader who had to log in. Nothing
// runs, and nothing is requested from other servers, neither by the rewritten page nor by its
// original bytes.
func TestStaysWithin(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	ctx := testkit.NewPage(t)
	out, visits, last := outside(t)
	sjis, err := japanese.ShiftJIS.NewEncoder().String(wanting(out))
	if err != nil {
		t.Fatal(err)
	}
	// The control: as an ordinary page it does make requests, to another server that counts for
	// itself.
	gets, got, _ := outside(t)
	ordinary, err := japanese.ShiftJIS.NewEncoder().String(strings.Replace(wanting(gets), "http-equiv=refresh", "", 1))
	if err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=shift_jis")
		io.WriteString(w, ordinary)
	}))
	defer plain.Close()
	look(t, ctx, plain.URL, `document.title !== "as it was"`, "true")
	if got.Load() < 10 {
		t.Fatalf("as an ordinary page it made %d visits", got.Load())
	}

	base := site(t, ctx, "", record("/", "text/html", sjis), record("/s.css", "text/css", "#text{color:rgb(1,2,3)}"), record("/i.gif", "image/gif", gif),
		record("/next.html", "text/html", "<title>the next page</title><p>next"))

	const seen = `[document.title, document.characterSet, getComputedStyle(document.getElementById("text")).color, document.getElementById("own").naturalWidth,
		document.getElementById("text").innerText, document.getElementById("sheaf-archive-banner") !== null].join("|")`
	look(t, ctx, base+"/web/20261121030000/http://"+host+"/", seen, "as it was|Shift_JIS|rgb(1, 2, 3)|1|"+prose+"|true")
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.getElementById("go").click(), document.getElementById("f").submit()`, nil),
		chromedp.Click("#next", chromedp.ByID)); err != nil {
		t.Fatal(err)
	}
	testkit.Watch(t, ctx, `document.title + " " + location.pathname`, "the next page /web/20261121030000/http://"+host+"/next.html")
	look(t, ctx, base+"/web/20261121030000id_/http://"+host+"/", `document.title + document.readyState`, "as it wascomplete")
	if n := visits.Load(); n != 0 {
		t.Errorf("%d requests left the archive, the last for %v", n, last.Load())
	}
}

func TestFrames(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	ctx := testkit.NewPage(t)
	base := site(t, ctx, "", record("/", "text/html", `<frameset cols="50%,50%"><frame name=menu src=menu.html><frame name=main src=main.html></frameset>`),
		record("/menu.html", "text/html", "<a id=other target=main href=other.html>menu</a>"), record("/main.html", "text/html", "<p>main"), record("/other.html", "text/html", "<p>other"))
	texts := `(() => { let f = document.querySelector("iframe").contentDocument; return [...f.querySelectorAll("frame")].map(x => x.contentDocument.body.innerText).join("|") })()`
	look(t, ctx, base+"/web/20261121030000/http://"+host+"/", texts, "menu|main")
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.querySelector("iframe").contentDocument.querySelector("frame").contentDocument.getElementById("other").click()`, nil)); err != nil {
		t.Fatal(err)
	}
	testkit.Watch(t, ctx, texts, "menu|other")
}

// The list of versions leads to what changed, without scripts.
func TestCompareByForm(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	ctx := testkit.NewPage(t)
	later := record("/", "text/html", "<p>火曜日に開きます")
	later.Time = then.Add(time.Hour)
	base := site(t, ctx, "", record("/", "text/html", "<p>月曜日に開きます"), later)
	testkit.Must(t, chromedp.Run(ctx, chromedp.Navigate(base+"/web/*/http://"+host+"/"), chromedp.Click("button", chromedp.ByQuery)))
	testkit.Watch(t, ctx, `[".hunk del", ".hunk ins"].map(part => document.querySelector(part).innerText)`, "月,火")
}
