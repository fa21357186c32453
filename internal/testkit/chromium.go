package testkit

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
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
