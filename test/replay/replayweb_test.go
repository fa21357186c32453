package replay

import (
	"context"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/testkit/chromium"
)

// replayWebPage is the tested version. It is under the AGPL: fetched for the test, and never kept
// here.
const replayWebPage = "replaywebpage@2.5.3"

// replayFiles puts ReplayWeb.page's two files into a directory, as an operator would.
func replayFiles(t *testing.T) string {
	t.Helper()
	npm, tar := testkit.Tool(t, "npm"), testkit.Tool(t, "tar")
	dir := t.TempDir()
	run := func(name string, args ...string) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			testkit.Missing(t, "needs %s from npm's registry: %v\n%s", replayWebPage, err, out)
		}
	}
	run(npm, "pack", "--silent", replayWebPage)
	files, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(files) != 1 {
		t.Fatalf("npm made %v, %v", files, err)
	}
	run(tar, "xzf", files[0], "--strip-components=1", "package/ui.js", "package/sw.js")
	return dir
}

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

// ReplayWeb.page reads the host's archives from the service, by ranges, and runs the page's script.
func TestReplayWebPage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	dir := replayFiles(t)
	for _, form := range []string{".wacz", ".warc.gz"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			ctx := chromium.New(t)
			page := `<html><head><meta charset=utf-8><title>page</title></head><body><p>` + prose + `</p><script>document.body.append("a script " + "ran")</script></body></html>`
			base := site(t, ctx, dir, record("/", "text/html", page))
			address := replayOrigin(base) + "/replay/?" + url.Values{"source": {"/a/" + host + form}}.Encode() + "#" +
				url.Values{"view": {"pages"}, "url": {"http://" + host + "/"}, "ts": {"20261121030000"}}.Encode()
			look(t, ctx, address, shows(prose)+" && "+shows("a script ran"), "true")
		})
	}
}
