package yesterday

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/text/encoding/japanese"

	"sheaf/internal/testkit"
)

// The hosts of the web that the robots collect.
const (
	river  = "www.kawa.example.ac.jp"  // its first day is an object of its own; most others are in packs
	letter = "www.moji.example.jp"     // pages in Shift_JIS and EUC-JP
	tinyA  = "a.chiisai.example.jp"    // never changes
	tinyB  = "b.chiisai.example.jp"    // its first edition is taken down
	down   = "www.kieta.example.jp"    // taken down; its first day is an object of its own, the second is in a pack
	part   = "www.ichibu.example.jp"   // one directory of it is taken down
	back   = "www.modotta.example.jp"  // taken down, and restored
	long   = "www.nagai.example.ac.jp" // the robot is stopped in the middle of it
	beyond = "www.soto.example.jp"     // is linked, and not collected

	longPages = 12
)

// Days of the web. The robots of a fixture have seen the first three.
const (
	firstDay = 1 + iota
	secondDay
	pendingDay // the batch of this day is in the robot's spool
	today
)

// page is what a server answers to a path.
type page struct {
	media string
	body  string
	tag   bool   // the server sends an ETag, and answers 304 to requests with it
	moved string // where it redirects to
}

// form is the answer to a form: the URL to which its fields are sent, with the fields behind it.
const form = river + "/search?__wb_method=POST&" + fields

const fields = "q=bridge"

// pages returns the web on a day, by host and path. The fixtures are made of it, and their robots
// come back to it: hosts, pages and days may be added, but none may be changed.
func pages(day int) map[string]page {
	from := func(first int, before, after string) string {
		if day < first {
			return before
		}
		return after
	}
	html := func(title, body string) page {
		return page{media: "text/html", body: "<!DOCTYPE html>\n<title>" + title + "</title>\n" + body + "\n"}
	}
	tagged := func(p page) page { p.tag = true; return p }
	m := map[string]page{
		river + "/": html("river", `<a href="a.html">a</a> <a href="b.html">b</a> <img src="map.gif"> <a href="old">old</a> <a href="private/x.html">x</a> <a href="e.html">e</a>`+
			from(secondDay, `<a href="c.html">c</a>`, `<a href="d.html">d</a>`)+` <a href="http://`+beyond+`/">beyond</a>`),
		river + "/a.html":  tagged(html("the source", "<p>It rises in the mountains.")),
		river + "/b.html":  html("the water", "<p>Today it stands at "+from(secondDay, "3", from(pendingDay, "4", "5"))+" metres."),
		river + "/e.html":  tagged(html("the mouth", "<p>It reaches the sea "+from(today, "slowly", "quickly")+".")),
		river + "/old":     {moved: "/a.html"},
		river + "/map.gif": tagged(page{media: "image/gif", body: "GIF89a" + noise(12<<10)}),
		down + "/map.gif":  {media: "image/gif", body: "GIF89a" + noise(9<<10)},

		form: html("found", "<p>the bridge "+from(today, "stands", "is gone")),

		letter + "/":         {media: "text/html", body: japaneseText(japanese.ShiftJIS.NewEncoder().String, "Shift_JIS", "日本語のページ", `<a href="euc.html">もう一つ</a> <p>川の水は今日も冷たい。`)},
		letter + "/euc.html": tagged(page{media: "text/html", body: japaneseText(japanese.EUCJP.NewEncoder().String, "EUC-JP", "もう一つのページ", "<p>海は広い。")}),

		tinyA + "/": tagged(html("tiny a", "<p>nothing happens")),
		tinyB + "/": html("tiny b", "<p>something happens"+from(secondDay, "", " again")),
		down + "/":  html("gone", `<a href="1.html">1</a> <img src="map.gif">`),
		part + "/":  html("partly", `<a href="open/1.html">open</a> <a href="secret/1.html">secret</a>`),
		back + "/":  tagged(html("back", "<p>It was away.")),

		down + "/1.html":        html("gone 1", "<p>nobody is to see it"+from(secondDay, "", " any more")),
		part + "/open/1.html":   html("open", "<p>for all"),
		part + "/secret/1.html": html("secret", "<p>for nobody"),
	}
	if day < secondDay {
		m[river+"/c.html"] = html("the bridge", "<p>It stands.")
	} else {
		m[river+"/d.html"] = html("the ferry", "<p>The bridge is gone.")
	}
	top := ""
	for i := 1; i < longPages; i++ {
		top += fmt.Sprintf(`<a href="%d.html">%d</a> `, i, i)
		p := html(fmt.Sprint("chapter ", i), fmt.Sprintf("<p>%s of chapter %d", strings.Repeat("words ", i), i))
		if i == 7 {
			p.body += from(today, "", "<p>and its end")
		}
		p.tag = i%2 == 0
		m[fmt.Sprintf("%s/%d.html", long, i)] = p
	}
	m[long+"/"] = html("a long story", top)
	return m
}

// changes counts how often a page was changed or new from one day to a later one.
func changes(at string, from, to int) (n int) {
	for day := from + 1; day <= to; day++ {
		if p, ok := pages(day)[at]; ok && p.body != pages(day - 1)[at].body {
			n++
		}
	}
	return n
}

// noise returns bytes that cannot be compressed, the same each time.
func noise(n int) string {
	r := rand.New(rand.NewPCG(1999, 11))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

func japaneseText(encode func(string) (string, error), charset, title, body string) string {
	text, err := encode(`<html><head><meta http-equiv="Content-Type" content="text/html; charset=` + charset + `"><title>` + title + "</title></head>\n<body>" + body + "</body></html>\n")
	if err != nil {
		panic(err) // the texts are here
	}
	return text
}

// web serves the pages of a day on a loopback address.
type web struct {
	at string // address

	mu      sync.Mutex // guards all below
	day     int
	left    int           // requests of host long that are answered before the others wait; negative: all
	waiting chan struct{} // closed when one waits
	release chan struct{}
}

func newWeb(t testing.TB, day int) *web {
	w := &web{day: day, left: -1}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	s := httptest.NewUnstartedServer(w)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	w.at = l.Addr().String()
	return w
}

// hosts returns the hosts' addresses as robots' settings take them.
func (w *web) hosts() map[string]string {
	at := make(map[string]string)
	for place := range pages(today) {
		host, _, _ := strings.Cut(place, "/")
		at[host] = w.at
	}
	return at
}

func (w *web) setDay(day int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.day = day
}

// holdLong lets n requests of host long pass. Later ones wait until release is called. waiting is
// closed when the first one waits.
func (w *web) holdLong(n int) (waiting <-chan struct{}, release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.waiting, w.release = n, make(chan struct{}), make(chan struct{})
	return w.waiting, sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.left = -1
		close(w.release)
	})
}

// enter returns the day, and what to wait for before the answer.
func (w *web) enter(host string) (day int, wait <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if host != long || w.left < 0 {
		return w.day, nil
	}
	if w.left > 0 {
		w.left--
		return w.day, nil
	}
	select {
	case <-w.waiting:
	default:
		close(w.waiting)
	}
	return w.day, w.release
}

func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	day, wait := w.enter(r.Host)
	if wait != nil {
		<-wait
	}
	if r.Host == river && r.URL.Path == "/robots.txt" {
		io.WriteString(rw, "User-agent: *\nDisallow: /private/\n")
		return
	}
	at := r.Host + r.URL.Path
	if r.Method == http.MethodPost {
		sent, _ := io.ReadAll(r.Body) // if it is not whole, no page matches
		at += "?__wb_method=POST&" + string(sent)
	}
	p, ok := pages(day)[at]
	switch {
	case !ok:
		http.NotFound(rw, r)
		return
	case p.moved != "":
		rw.Header().Set("Location", p.moved)
		rw.WriteHeader(http.StatusMovedPermanently)
		return
	}
	rw.Header().Set("Content-Type", p.media)
	if p.tag {
		sum := sha256.Sum256([]byte(p.body))
		tag := fmt.Sprintf(`"%x"`, sum[:8])
		rw.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
	}
	io.WriteString(rw, p.body)
}
