package ui_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"sheaf/internal/testkit"
	"sheaf/internal/testkit/chromium"
	"sheaf/manager"
	"sheaf/ui/removal"
)

func TestMain(m *testing.M) { chromium.Main(m) }

// axeCore is the version of the checker of accessibility (https://github.com/dequelabs/axe-core).
const axeCore = "axe-core@4.14.1"

// axe fetches axe-core from npm's registry and returns its script.
func axe(t *testing.T) string {
	t.Helper()
	npm := testkit.Tool(t, "npm")
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), npm, "install", "--no-audit", "--no-fund", "--silent", "--ignore-scripts", axeCore)
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		testkit.Missing(t, "needs %s from npm's registry: %v\n%.300s", axeCore, err, out)
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	testkit.Must(t, err)
	return string(script)
}

// violation is a fault that axe found.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML string `json:"html"`
	} `json:"nodes"`
}

// logIn fills in the log-in page as somebody does who was sent there, and sees where that leads.
func logIn(t *testing.T, ctx context.Context, base string) {
	t.Helper()
	var at string
	testkit.Must(t, chromedp.Run(ctx,
		chromedp.Navigate(base+"/watches"), // which needs an account
		chromedp.SendKeys("input[name=name]", "reader"), chromedp.SendKeys("input[name=password]", "reader's password"),
		chromedp.Submit("input[name=password]"), chromedp.WaitVisible("form.logout"), chromedp.Location(&at),
	))
	if at != base+"/watches" {
		t.Fatalf("the log-in leads to %s", at)
	}
}

// Every page passes axe's rules in both themes and languages, on a phone and on a wide screen, and none
// is wider than its screen. Pictures are kept in SHEAF_TEST_SCREENSHOTS, where that names a directory.
func TestPagesAreAccessible(t *testing.T) {
	testkit.Slow(t)
	script := axe(t)
	site, ctx := newSite(t), chromium.New(t)
	base := faceOf(t, site, "")
	robot, err := manager.New(site.DB, manager.Options{Key: robotKey, Dir: t.TempDir()}).Roster.Page(t.Context(), "waseda")
	testkit.Must(t, err)
	pictures := os.Getenv("SHEAF_TEST_SCREENSHOTS")
	asked, err := http.PostForm(base+removal.Path, url.Values{"wish": {"removal"}, "kind": {"host"}, "target": {"www.waseda.ac.jp"}, "email": {"owner@mail.example"}, "reason": {"it is ours"}})
	testkit.Must(t, err)
	asked.Body.Close()
	logIn(t, ctx, base)
	for name, path := range map[string]string{
		"login": "/login?next=/browse/", "reset": "/login/reset", "account": "/account",
		"removal": removal.Path + "?host=www.waseda.ac.jp", "request": asked.Request.URL.Path, "robot": robot,
		"front": "/", "browse": "/browse/jp/ac/", "host": "/browse/jp/ac/waseda/", "webmasters": "/webmasters", "lost": "/find?q=nowhere.example",
	} {
		for _, lang := range []string{"en", "ja"} {
			for _, theme := range []string{"light", "dark"} {
				for _, width := range []int64{390, 1280} {
					if !testkit.Full() && pictures == "" && (lang == "ja") != (theme == "dark") {
						continue // the long form tries all
					}
					var wider bool
					var picture []byte
					var result string
					err := chromedp.Run(ctx,
						chromedp.EmulateViewport(width, 900),
						emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}),
						chromedp.Navigate(base+"/language/"+lang+"?"+url.Values{"back": {path}}.Encode()),
						chromedp.Evaluate("document.documentElement.scrollWidth > innerWidth", &wider),
						chromedp.FullScreenshot(&picture, 90),
						chromedp.Evaluate(script+`; axe.run({resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations))`, &result, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
					)
					testkit.Must(t, err)
					var found []violation
					testkit.Must(t, json.Unmarshal([]byte(result), &found))
					for _, v := range found {
						t.Errorf("%s %s %s %d: %s: %s: %.200s", path, lang, theme, width, v.ID, v.Help, v.Nodes[0].HTML)
					}
					if wider {
						t.Errorf("%s %s %s: wider than %d pixels", path, lang, theme, width)
					}
					if pictures != "" {
						file := filepath.Join(pictures, strings.Join([]string{name, lang, theme, map[int64]string{390: "phone", 1280: "wide"}[width]}, "-")+".jpg")
						testkit.Must(t, os.WriteFile(file, picture, 0o644))
					}
				}
			}
		}
	}
}
