package replay

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"sheaf/archive"
	"sheaf/internal/testkit"
)

// attack is a page that does what it must not, in a frame of its own. NAME stands for the attack's
// name.
type attack struct{ name, media, body string }

// evil does all that a script can do to leave the archive, after it has reported that it runs.
const evil = `new Image().src="OUT/ran/NAME"; try { top.document.documentElement.dataset.ran = "NAME" } catch (e) {}
try { navigator.serviceWorker.register("/web/sw.js") } catch (e) {} try { document.domain = document.domain } catch (e) {}
try { top.postMessage("NAME", "*") } catch (e) {} try { fetch("OUT/fetch/NAME") } catch (e) {} try { open("OUT/popup/NAME") } catch (e) {}`

// attacks returns the ways in which a framed page may get a script to run.
func attacks() []attack {
	const html = "text/html"
	quoted := strings.NewReplacer(`"`, "&quot;", "<", "&lt;", "\n", " ").Replace(evil)
	script := "<script>" + evil + "</script>"
	xhtml := `<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body><script><![CDATA[` + evil + `]]></script></body></html>`
	escaped := strings.NewReplacer("%", "%25", `"`, "%22", "<", "%3C", ">", "%3E", "\n", "%0A", " ", "%20", "#", "%23").Replace(script)
	return []attack{
		{"script", html, script},
		{"handler", html, `<body onload="` + quoted + `">`},
		{"image", html, `<img src=none.gif onerror="` + quoted + `">`},
		{"javascript", html, `<iframe src="javascript:` + quoted + `"></iframe>`},
		{"srcdoc", html, `<iframe srcdoc="` + strings.NewReplacer(`"`, "&quot;", "\n", " ").Replace(script) + `"></iframe>`},
		{"data", html, `<iframe src="data:text/html,` + escaped + `"></iframe>`},
		{"inlinesvg", html, `<svg xmlns="http://www.w3.org/2000/svg"><script>` + strings.ReplaceAll(evil, "&", "&amp;") + `</script></svg>`},
		{"svg", "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg"><script><![CDATA[` + evil + `]]></script></svg>`},
		{"xhtml", "application/xhtml+xml", xhtml},
		{"xml", "text/xml", xhtml},
		{"nested", html, `<object data="script.html" width=10 height=10></object>`},
		{"twotypes", "application/pdf;, text/html", script},
	}
}

// shielded returns what leads away or disturbs the reader without a script.
func shielded() []attack {
	const html = "text/html"
	return []attack{
		{"refresh", html, `<meta http-equiv=refresh content="0;url=OUT/refresh">`},
		{"base", html, `<base href="OUT/base/" target=_top><a id=away href="page.html">a</a><img src=base.gif>`},
		{"form", html, `<form id=f target=_top action="OUT/form"><input name=a value=b><button id=go formaction="OUT/button">go</button></form>`},
		{"xmlrefresh", "application/xhtml+xml", `<html xmlns="http://www.w3.org/1999/xhtml"><head><meta http-equiv="refresh" content="0;url=OUT/xml"/></head><body/></html>`},
		{"embedded", html, `<iframe src="OUT/iframe"></iframe><object data="OUT/object"></object><embed src="OUT/embed"><iframe src="data:text/html,<meta http-equiv=refresh content='0;url=OUT/data'>"></iframe>`},
		{"download", html, `<iframe src="file.zip"></iframe><meta http-equiv=refresh content="0;url=file.zip">`},
	}
}

func (a attack) file() string {
	switch a.name {
	case "svg", "xhtml", "xml":
		return a.name + "." + a.name
	}
	return a.name + ".html"
}

func (a attack) text(out string) string {
	return strings.NewReplacer("OUT", out, "NAME", a.name).Replace(a.body)
}

// framing returns a page that shows all of them, in frames or in iframes.
func framing(all []attack, tag string) string {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "<%s name=%s src=%s></%s>", tag, a.name, a.file(), tag)
	}
	if tag == "frame" {
		return "<html><head><title>frames</title></head><frameset rows='" + strings.Repeat("*,", len(all)-1) + "*'>" + b.String() + "</frameset></html>"
	}
	return "<html><head><title>frames</title></head><body>" + b.String() + "</body></html>"
}

// witness is the rest of the web. It records the requests that it gets.
type witness struct {
	mu    sync.Mutex // guards paths
	paths map[string]bool
}

func newWitness(t *testing.T) (*witness, string) {
	w := &witness{paths: make(map[string]bool)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.paths[r.URL.Path] = true
	}))
	t.Cleanup(server.Close)
	return w, server.URL
}

func (w *witness) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for p := range w.paths {
		all = append(all, p)
	}
	sort.Strings(all)
	return all
}

// No page in a frame runs a script, leaves the archive, sends a form, opens a window, registers a
// worker or begins a download, both in a frameset's frame, which has no sandbox, and in an iframe.
// Outside the archive all the scripts run.
func TestFramedAttacks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	ctx := testkit.NewPage(t)
	scripts, all := attacks(), append(attacks(), shielded()...)

	// The control: without the archive's policy each of them runs.
	told, elsewhere := newWitness(t)
	mux := http.NewServeMux()
	for _, a := range scripts {
		mux.HandleFunc("/"+a.file(), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", a.media)
			fmt.Fprint(w, strings.ReplaceAll(a.text(elsewhere), "open(", "void("))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, framing(scripts, "frame")) })
	ordinary := httptest.NewServer(mux)
	defer ordinary.Close()
	began := time.Now()
	if err := chromedp.Run(ctx, chromedp.Navigate(ordinary.URL)); err != nil {
		t.Fatal(err)
	}
	missing := func() (names []string) {
		seen := strings.Join(told.seen(), " ") + " "
		for _, a := range scripts {
			if a.name != "nested" && !strings.Contains(seen, "/ran/"+a.name+" ") {
				names = append(names, a.name)
			}
		}
		return names
	}
	testkit.Eventually(t, "as ordinary pages they run their scripts", func() error {
		if names := missing(); len(names) > 0 {
			return fmt.Errorf("these run none: %v", names)
		}
		return nil
	})
	// One cannot wait for what does not happen, so the archive's pages get as long as all of these
	// took.
	moment := max(500*time.Millisecond, time.Since(began))

	told, elsewhere = newWitness(t)
	records := []*archive.Record{record("/", "text/html", framing(all, "frame")), record("/i.html", "text/html", framing(all, "iframe")),
		record("/file.zip", "application/zip", "PK\x05\x06"+strings.Repeat("\x00", 18))}
	for _, a := range all {
		records = append(records, record("/"+a.file(), a.media, a.text(elsewhere)))
	}
	base := site(t, ctx, "", records...)
	var downloads, windows atomic.Int64
	if err := chromedp.Run(ctx, browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorDeny).WithEventsEnabled(true)); err != nil {
		t.Fatal(err)
	}
	chromedp.ListenBrowser(ctx, func(ev any) {
		if _, ok := ev.(*browser.EventDownloadWillBegin); ok {
			downloads.Add(1)
		}
	})
	chromedp.ListenTarget(ctx, func(ev any) {
		if _, ok := ev.(*page.EventWindowOpen); ok {
			windows.Add(1)
		}
	})
	quiet := func() {
		t.Helper()
		testkit.Throughout(t, "nothing leaves the archive", moment, func() error {
			if seen := told.seen(); len(seen) > 0 || downloads.Load() > 0 || windows.Load() > 0 {
				return fmt.Errorf("requests %v, %d downloads, %d windows", seen, downloads.Load(), windows.Load())
			}
			return nil
		})
	}
	quietly := func(context.Context) error { quiet(); return nil }
	for _, way := range []string{"/", "/i.html"} {
		url := base + "/web/20261121030000/http://" + host + way
		// Check that the frames are there, so that there was something to run.
		const loaded = `(() => { let n = 0; (function count(w) { for (let i = 0; i < w.frames.length; i++) { n++; count(w.frames[i]) } })(window); return n >= WANT && document.readyState })()`
		look(t, ctx, url, strings.Replace(loaded, "WANT", fmt.Sprint(len(all)), 1), "complete")
		quiet()
		var ran string
		const submit = `(() => { let done = 0; (function each(w) { try { for (const f of w.document.forms) if (!f.closest('#sheaf-archive-banner')) { f.submit(); done++ } } catch (e) {} for (let i = 0; i < w.frames.length; i++) each(w.frames[i]) })(window); return done })()`
		var forms int
		if err := chromedp.Run(ctx, chromedp.Evaluate(submit, &forms), chromedp.ActionFunc(quietly),
			chromedp.Evaluate(`String(document.documentElement.dataset.ran) + " " + location.href`, &ran)); err != nil {
			t.Fatal(err)
		}
		if forms != 1 {
			t.Errorf("%s: %d forms were to be sent, want 1", way, forms)
		}
		if ran != "undefined "+url {
			t.Errorf("%s: a script ran, or the reader is elsewhere: %s", way, ran)
		}
		var workers int
		if err := chromedp.Run(ctx, chromedp.Navigate(base+"/v1/version"), chromedp.Evaluate(`navigator.serviceWorker.getRegistrations().then(all => all.length)`, &workers,
			chromedp.EvalWithCommandLineAPI, awaitPromise)); err != nil || workers != 0 {
			t.Errorf("%s: %d service workers, %v", way, workers, err)
		}
		targets, err := chromedp.Targets(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range targets {
			if target.Type == "page" && strings.HasPrefix(target.URL, elsewhere) {
				t.Errorf("%s: a window shows %s", way, target.URL)
			}
		}
		quiet()
	}
	// The page whose type can be read in two ways, outside a frame.
	var ran string
	if err := chromedp.Run(ctx, chromedp.Navigate(base+"/web/20261121030000id_/http://"+host+"/twotypes.html"), chromedp.ActionFunc(quietly),
		chromedp.Evaluate(`String(document.documentElement.dataset.ran)`, &ran)); err != nil || ran != "undefined" || len(told.seen()) > 0 {
		t.Errorf("a page with two types: %s, %v, %v", ran, told.seen(), err)
	}
}

func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
