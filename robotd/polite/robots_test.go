package polite

import (
	"bytes"
	"errors"
	"testing"

	"sheaf/internal/preference"
)

func TestFromResponse(t *testing.T) {
	body := []byte("User-agent: *\nDisallow: /x\n")
	for _, tt := range []struct {
		status         int
		err            error
		notNow, allows bool
	}{
		{status: 200},
		{status: 204},
		{status: 206, notNow: true},
		{status: 302, allows: true},
		{status: 401, allows: true},
		{status: 403, allows: true},
		{status: 404, allows: true},
		{status: 429, notNow: true},
		{status: 500, notNow: true},
		{status: 503, notNow: true},
		{status: 100, notNow: true},
		{err: errors.New("connection refused"), notNow: true},
	} {
		v := FromResponse(tt.status, body, tt.err)
		if v.NotNow() != tt.notNow || v.Why == "" {
			t.Errorf("%d, %v: not now = %v, want %v", tt.status, tt.err, v.NotNow(), tt.notNow)
		}
		if !tt.notNow && v.Rules.Allowed("bot", "/x") != tt.allows {
			t.Errorf("%d: /x allowed = %v, want %v", tt.status, !tt.allows, tt.allows)
		}
	}
}

func TestLibrary(t *testing.T) {
	l := NewLibrary()
	share := func(text string) *preference.Robots { return l.Share(preference.ParseRobots([]byte(text))) }
	none, private := share(""), share("User-agent: *\nDisallow: /private")
	if share("") != none || share("User-agent: *\nDisallow: /private") != private || none == private {
		t.Error("equal texts do not share rules, or different texts do")
	}
	if share("# of some host\nUser-agent: *\nDisallow: /private\nSitemap: http://a.test/sitemap.xml") != private {
		t.Error("texts that differ in a line without a rule do not share rules")
	}
	if slow := share("User-agent: *\nDisallow: /private\nCrawl-delay: 9"); slow == private || slow.CrawlDelay("sheafbot") == private.CrawlDelay("sheafbot") {
		t.Error("texts with different delays share rules")
	}
	if !none.Allowed("sheafbot", "/private") || private.Allowed("sheafbot", "/private") {
		t.Error("shared rules differ from the text's")
	}
	long := string(bytes.Repeat([]byte("User-agent: *\nDisallow: /somewhere\n"), libraryText/30))
	if first, second := share(long), share(long); first == second {
		t.Error("the rules of a long text are stored")
	}
}
