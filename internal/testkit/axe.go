package testkit

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

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
