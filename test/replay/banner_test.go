package replay

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"

	"sheaf/internal/testkit"
)

// The banner's address box works without scripts, and leads nowhere but to the search. A form of
// the stored page, which has the same origin, is not sent to the service, although the banner's may
// be.
func TestAddressBox(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	ctx := testkit.NewPage(t)
	later := record("/", "text/html", "<p>later<form id=f method=post><input name=a></form>")
	later.Time = then.Add(time.Hour)
	base := site(t, ctx, "", record("/", "text/html", "<p>first"), later)
	refused := make(chan string, 10)
	chromedp.ListenTarget(ctx, func(event any) {
		if e, ok := event.(*log.EventEntryAdded); ok && strings.Contains(e.Entry.Text, "form-action") {
			refused <- e.Entry.Text
		}
	})
	testkit.Must(t, chromedp.Run(ctx, log.Enable()))
	look(t, ctx, base+"/web/20261121040000/http://"+host+"/", `document.querySelectorAll("#sheaf-archive-banner svg rect").length`, "2")
	testkit.Must(t, chromedp.Run(ctx, chromedp.Evaluate(`f.action = location.origin + "/v1/watches", f.submit()`, nil)))
	if text := <-refused; !strings.Contains(text, "/v1/watches") {
		t.Error(text)
	}
	testkit.Must(t, chromedp.Run(ctx, chromedp.SetValue("#sheaf-archive-banner input", "waseda.ac.jp", chromedp.ByQuery), chromedp.Click("#sheaf-archive-banner button", chromedp.ByQuery)))
	testkit.Watch(t, ctx, `location.pathname + location.search`, "/find?"+url.Values{"q": {"waseda.ac.jp"}}.Encode())
}

// The timeline leads to the versions.
func TestTimeline(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	ctx := testkit.NewPage(t)
	later := record("/", "text/html", "<p>later")
	later.Time = then.Add(time.Hour)
	base := site(t, ctx, "", record("/", "text/html", "<p>first"), later)
	look(t, ctx, base+"/web/20261121040000/http://"+host+"/", `document.querySelector("p").innerText`, "later")
	testkit.Must(t, chromedp.Run(ctx, chromedp.Click("#sheaf-archive-banner svg a", chromedp.ByQuery)))
	testkit.Watch(t, ctx, `document.querySelector("p").innerText`, "first")
}
