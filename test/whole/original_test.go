package whole

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// An imported record has in files and queries the ID by which the other records of its file refer
// to it, and what its header had besides.
func TestImportedHeaders(t *testing.T) {
	t.Parallel()
	h := startWithdrawerOf(t, []string{good}, nil)
	h.bring(1)
	const answer, request = "<urn:uuid:0a6c6a3e-1f0f-4a36-9a0f-3f1f0f0a0001>", "<urn:uuid:0a6c6a3e-1f0f-4a36-9a0f-3f1f0f0a0002>"
	const url = "http://old.example.jp/page.html"
	record := func(kind, id, fields, block string) string {
		return fmt.Sprintf("WARC/1.1\r\nWARC-Type: %s\r\nWARC-Record-ID: %s\r\nWARC-Target-URI: %s\r\nWARC-Date: 2012-05-06T07:08:09Z\r\n%sContent-Length: %d\r\n\r\n%s\r\n\r\n",
			kind, id, url, fields, len(block), block)
	}
	const head = "HTTP/1.1 200 Fine\r\nserver:old\r\nContent-Type: text/html\r\n\r\n"
	data := record("response", answer, "Content-Type: application/http;msgtype=response\r\nWARC-Page-ID: p7\r\n", head+"<p>old") +
		record("request", request, "Content-Type: application/http;msgtype=request\r\nWARC-Concurrent-To: "+answer+"\r\n", "GET /page.html HTTP/1.1\r\nHost: old.example.jp\r\n\r\n")
	testkit.Must(t, h.bringFile(wire.Collection{}, "old.warc", []byte(data)))

	for query, want := range map[string]string{
		"&fl=warc.WARC-Record-ID,warc.warc-page-id,warc.X-None": answer + " p7 -\n",
		"&fl=status&filter==warc.WARC-Record-ID:" + answer:      "200\n",
		"&fl=status&filter=!warc.WARC-Record-ID:0a6c6a3e":       "",
		"&fl=status&filter=warc.X-Original-WARC-Type:.%2B":      "",
	} {
		if text, status := h.get(api.PathCDX + "?output=text&url=" + url + query); status != http.StatusOK || text != want {
			t.Errorf("%s: status %d: %q, want %q", query, status, text, want)
		}
	}
	if text, status := h.get(api.PathCDX + "?fl=warc.&url=" + url); status != http.StatusBadRequest || !strings.Contains(text, "warc.NAME") {
		t.Errorf("a field without a name: status %d: %s", status, text)
	}
	file, status := h.get(api.PathArchives + "old.example.jp/all.warc.gz")
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	text := inflated(t, []byte(file))
	for _, line := range []string{"\r\nWARC-Record-ID: " + answer + "\r\n", "\r\nWARC-Page-ID: p7\r\n", "\r\n\r\n" + head + "<p>old\r\n\r\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("the file lacks %q:\n%s", line, text)
		}
	}
}
