package polite

import (
	"bytes"
	"testing"
)

func TestLibrary(t *testing.T) {
	l := NewLibrary()
	share := func(text string) *Robots { return l.Share(Parse([]byte(text))) }
	none, private := share(""), share("User-agent: *\nDisallow: /private")
	if share("") != none || share("User-agent: *\nDisallow: /private") != private || none == private {
		t.Error("the same text has other rules, or another the same")
	}
	if share("# of some host\nUser-agent: *\nDisallow: /private\nSitemap: http://a.test/sitemap.xml") != private {
		t.Error("a line that is no rule keeps rules apart")
	}
	if slow := share("User-agent: *\nDisallow: /private\nCrawl-delay: 9"); slow == private || slow.CrawlDelay("sheafbot") == private.CrawlDelay("sheafbot") {
		t.Error("another delay is taken for the same rules")
	}
	if !none.Allowed("sheafbot", "/private") || private.Allowed("sheafbot", "/private") {
		t.Error("shared rules say something else")
	}
	long := string(bytes.Repeat([]byte("User-agent: *\nDisallow: /somewhere\n"), libraryText/30))
	if first, second := share(long), share(long); first == second {
		t.Error("a long text's rules are remembered")
	}
}
