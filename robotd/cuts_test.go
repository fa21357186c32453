package robotd

import (
	"bytes"
	"fmt"
	"maps"
	"testing"

	"sheaf/internal/page"
	"sheaf/internal/testkit"
	"sheaf/robotd/crawl"
)

// TestNoLinkIsLostSilently: links beyond what is taken of a page, a sitemap or for the archive
// stand in the batch's account, and a sitemap that is longer than a page may be is read to its end.
func TestNoLinkIsLostSilently(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const entries, tooMany = 15_000, 3
	web := newSite(t, "127.0.0.53")
	var body, sitemap bytes.Buffer
	for i := range page.MaxLinks + tooMany {
		fmt.Fprintf(&body, "<a href=p%d>", i)
	}
	fmt.Fprint(&sitemap, "<urlset>")
	for i := range entries {
		fmt.Fprintf(&sitemap, "<url><loc>http://www.cut.test/s%d</loc>%700s</url>", i, "")
	}
	fmt.Fprint(&sitemap, "</urlset>")
	if sitemap.Len() <= page.MaxBytes {
		t.Fatalf("the sitemap has %d bytes, which a page may have", sitemap.Len())
	}
	web.page("www.cut.test/", "text/html", body.Bytes())
	web.page("www.cut.test/sitemap.xml", "application/xml", sitemap.Bytes())
	web.robots = "Sitemap: http://www.cut.test/sitemap.xml\n"
	s := newService(t, "http://www.cut.test/")
	cfg := testConfig(t, s, map[string]string{"www.cut.test": web.addr})
	cfg.Page.MaxDepth, cfg.Links.Record = 0, true // the links are found, and not visited
	r, err := New(cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Cycle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := s.batches[0].manifest.Coverage[0]
	want := map[string]int64{
		"depth": page.MaxLinks + entries, page.CutLinks: tooMany, crawl.NotRecorded: page.MaxLinks + entries - 2*1000,
	}
	if got.Collected != 2 || !maps.Equal(got.Cut, want) {
		t.Errorf("%d pages, cut %v, want %v", got.Collected, got.Cut, want)
	}
}
