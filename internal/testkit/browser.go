package testkit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// shared is the browser that all tests of a package share. Main ends it.
var shared struct {
	once sync.Once
	ctx  context.Context
	err  error
}

// Main runs a package's tests, then ends the browser. It is for TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.ctx != nil {
		_ = chromedp.Cancel(shared.ctx) // it may have ended
	}
	os.Exit(code)
}

// NewPage opens a browser window for the test. The window shares neither cookies nor storage with
// other windows. Without Chromium the test is skipped.
func NewPage(t *testing.T) context.Context {
	t.Helper()
	program := Tool(t, "chromium")
	shared.once.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
			chromedp.WSURLReadTimeout(Patience))
		ctx, _ := chromedp.NewExecAllocator(context.Background(), options...)
		shared.ctx, _ = chromedp.NewContext(ctx)
		shared.err = chromedp.Run(shared.ctx)
		AtExit(func() { _ = chromedp.Cancel(shared.ctx) }) // for packages with InMemory instead of Main as TestMain
	})
	if shared.err != nil {
		t.Fatalf("start of the browser: %v", shared.err)
	}
	all := cdp.WithExecutor(shared.ctx, chromedp.FromContext(shared.ctx).Browser)
	own, err := target.CreateBrowserContext().Do(all)
	Must(t, err)
	t.Cleanup(func() { _ = target.DisposeBrowserContext(own).Do(all) }) // the browser is about to end anyway
	window, err := target.CreateTarget("about:blank").WithBrowserContextID(own).WithNewWindow(true).Do(all)
	Must(t, err)
	ctx, cancel := chromedp.NewContext(shared.ctx, chromedp.WithTargetID(window))
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("a new window: %v", err)
	}
	return ctx
}

// Watch evaluates an expression of JavaScript until it has the wanted value. Use it after each
// action that leads to another page. chromedp's queries of nodes, such as Text and WaitVisible,
// fail by themselves where the browser replaces the document while they ask about a node.
func Watch(t *testing.T, ctx context.Context, expression, want string) {
	t.Helper()
	Eventually(t, expression, func() error {
		var got string
		err := chromedp.Run(ctx, chromedp.Evaluate("(() => { try { return String("+expression+") } catch (e) { return String(e) } })()", &got))
		if err == nil && got != want {
			err = fmt.Errorf("it is %s, want %s", got, want)
		}
		return err // between two pages evaluation fails
	})
}

// axe returns the script of axe-core, the checker of accessibility
// (https://github.com/dequelabs/axe-core).
func axe(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(NPM(t, "axe-core"), "node_modules", "axe-core", "axe.min.js"))
	Must(t, err)
	return string(script)
}

// Page is a page that Look checks.
type Page struct {
	Name string // name of its pictures
	Path string
	Part string // CSS selector of the part to check; empty: the whole page
}

// violation is a rule that a page breaks, as axe reports it.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML string `json:"html"`
	} `json:"nodes"`
}

// Look checks that pages of the service at base pass axe's rules and are not wider than the screen,
// in both themes and languages, on a phone and on a wide screen. If SHEAF_TEST_SCREENSHOTS names a
// directory, Look keeps pictures of all pages there.
func Look(t *testing.T, ctx context.Context, base string, pages []Page) {
	t.Helper()
	script, pictures := axe(t), os.Getenv("SHEAF_TEST_SCREENSHOTS")
	Must(t, chromedp.Run(ctx, page.SetBypassCSP(true))) // stored pages forbid scripts, which would include axe's
	for _, p := range pages {
		for _, lang := range []string{"en", "ja"} {
			for _, theme := range []string{"light", "dark"} {
				for _, screen := range []string{"phone", "wide"} {
					p.look(t, ctx, base, script, lang, theme, screen)
					if pictures != "" {
						var picture []byte
						Must(t, chromedp.Run(ctx, chromedp.FullScreenshot(&picture, 90)))
						file := filepath.Join(pictures, strings.Join([]string{p.Name, lang, theme, screen}, "-")+".jpg")
						Must(t, os.WriteFile(file, picture, 0o644))
					}
				}
			}
		}
	}
}

func (p *Page) look(t *testing.T, ctx context.Context, base, script, lang, theme, screen string) {
	t.Helper()
	width := map[string]int64{"phone": 390, "wide": 1280}[screen]
	what, err := json.Marshal(p.Part)
	Must(t, err)
	if p.Part == "" {
		what = []byte("document")
	}
	var wider bool
	var result string
	err = chromedp.Run(ctx,
		chromedp.EmulateViewport(width, 900),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}),
		chromedp.Navigate(base+"/language/"+lang+"?"+url.Values{"back": {p.Path}}.Encode()),
		chromedp.Evaluate("document.documentElement.scrollWidth > innerWidth", &wider),
		chromedp.Evaluate(script+`; axe.run(`+string(what)+`, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations))`, &result,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
	)
	if err != nil {
		t.Fatalf("%s: %v", p.Path, err)
	}
	var found []violation
	Must(t, json.Unmarshal([]byte(result), &found))
	for _, v := range found {
		t.Errorf("%s %s %s %s: %s: %s: %.200s", p.Name, lang, theme, screen, v.ID, v.Help, v.Nodes[0].HTML)
	}
	if wider && p.Part == "" {
		t.Errorf("%s %s %s: wider than %d pixels", p.Name, lang, theme, width)
	}
}
