package replay

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// deep looks for a text in a page, its shadow trees and its frames.
const deep = `(function find(root) {
	for (const e of root.querySelectorAll("*")) {
		if (e.shadowRoot && find(e.shadowRoot)) return true;
		if (e.tagName === "IFRAME") {
			let d = null;
			try { d = e.contentDocument } catch {}
			if (d && d.body && (d.body.innerText.includes(TEXT) || find(d))) return true;
		}
	}
	return false;
})(document)`

func shows(text string) string { return strings.ReplaceAll(deep, "TEXT", strconv.Quote(text)) }

// ReplayWeb.page, which is under the AGPL and never kept here, reads the host's archives from the
// service, by ranges, and runs the page's script.
func TestReplayWebPage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	dir := filepath.Join(testkit.NPM(t, "replaywebpage"), "node_modules", "replaywebpage")
	for _, form := range []string{".wacz", ".warc.gz"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			ctx := testkit.NewPage(t)
			page := `<html><head><meta charset=utf-8><title>page</title></head><body><p>` + prose + `</p><script>document.body.append("a script " + "ran")</script></body></html>`
			base := site(t, ctx, dir, record("/", "text/html", page))
			address := replayOrigin(base) + "/replay/?" + url.Values{"source": {"/a/" + host + form}}.Encode() + "#" +
				url.Values{"view": {"pages"}, "url": {"http://" + host + "/"}, "ts": {"20261121030000"}}.Encode()
			look(t, ctx, address, shows(prose)+" && "+shows("a script ran"), "true")
		})
	}
}
