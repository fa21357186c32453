package preference

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The cases are our own, after the text and examples of RFC 9309.
func TestAllowed(t *testing.T) {
	const all = "User-agent: *\n"
	for _, tt := range []struct {
		name, robots, agent, path string
		want                      bool
	}{
		{"empty file", "", "bot", "/", true},
		{"empty disallow", all + "Disallow:\n", "bot", "/", true},
		{"disallow all", all + "Disallow: /\n", "bot", "/x", false},
		{"robots.txt itself", all + "Disallow: /\n", "bot", "/robots.txt", true},
		{"robots.txt with a query", all + "Disallow: /\n", "bot", "/robots.txt?x", false},
		{"prefix", all + "Disallow: /a\n", "bot", "/abc", false},
		{"case of paths", all + "Disallow: /A\n", "bot", "/a", true},
		{"longest wins", all + "Disallow: /a\nAllow: /a/b\n", "bot", "/a/b/c", true},
		{"longest wins, whatever the order", all + "Allow: /a/b\nDisallow: /a\n", "bot", "/a/b/c", true},
		{"longest disallow wins", all + "Allow: /a\nDisallow: /a/b\n", "bot", "/a/b/c", false},
		{"allow wins ties", all + "Disallow: /a\nAllow: /a\n", "bot", "/a", true},
		{"tie with a star", all + "Disallow: /*.ph\nAllow: /page\n", "bot", "/page.php", true},
		{"star counts as a character", all + "Allow: /page\nDisallow: /*.php\n", "bot", "/page.php", false},
		{"star", all + "Disallow: /*.gif\n", "bot", "/a/b.gif?x", false},
		{"star matches nothing too", all + "Disallow: /a*b\n", "bot", "/ab", false},
		{"many stars", all + "Disallow: /**a**b\n", "bot", "/xxaxxbxx", false},
		{"end", all + "Disallow: /a$\n", "bot", "/ab", true},
		{"end matches", all + "Disallow: /a$\n", "bot", "/a", false},
		{"star and end", all + "Disallow: /*.gif$\n", "bot", "/a.gif.gif", false},
		{"star and end, not at the end", all + "Disallow: /*.gif$\n", "bot", "/a.gif?x", true},
		{"dollar within", all + "Disallow: /a$b\n", "bot", "/a$b", false},
		{"dollar encoded", all + "Disallow: /a%24\n", "bot", "/a$b", false},
		{"star encoded", all + "Disallow: /a%2Ab\n", "bot", "/a*b", false},
		{"star encoded is no wildcard", all + "Disallow: /a%2Ab\n", "bot", "/axb", true},
		{"end of a query", all + "Disallow: /*?$\n", "bot", "/a?", false},
		{"query", all + "Disallow: /foo/bar?baz=quz\n", "bot", "/foo/bar?baz=quz", false},
		{"reserved stays encoded", all + "Disallow: /foo/bar?baz=https%3A%2F%2Ffoo.bar\n", "bot", "/foo/bar?baz=https%3a%2f%2ffoo.bar", false},
		{"reserved encoded is not plain", all + "Disallow: /a%2Fb\n", "bot", "/a/b", true},
		{"beyond ASCII in the file", all + "Disallow: /foo/bar/ツ\n", "bot", "/foo/bar/%E3%83%84", false},
		{"beyond ASCII in the path", all + "Disallow: /foo/bar/%E3%83%84\n", "bot", "/foo/bar/ツ", false},
		{"needless encoding in the file", all + "Disallow: /foo/bar/%62%61%7A\n", "bot", "/foo/bar/baz", false},
		{"needless encoding in the path", all + "Disallow: /foo/bar/baz\n", "bot", "/foo/bar/%62%61%7a", false},
		{"no slash in front", all + "Disallow: a\n", "bot", "/a", false},
		{"own group over all", all + "Disallow: /\nUser-agent: bot\nDisallow: /x\n", "bot", "/y", true},
		{"own group without rules", all + "Disallow: /\nUser-agent: bot\n", "bot", "/y", true},
		{"case of agents", "User-agent: BoT\nDisallow: /\n", "bOt", "/", false},
		{"header as agent", "User-agent: bot\nDisallow: /\n", "Bot/1.2 (+http://a/)", "/", false},
		{"version in the file", "User-agent: bot/9\nDisallow: /\n", "bot", "/", false},
		{"longer agent is another", "User-agent: botany\nDisallow: /\n", "bot", "/", true},
		{"shorter agent is another", "User-agent: bo\nDisallow: /\n", "bot", "/", true},
		{"groups of one agent join", "User-agent: bot\nDisallow: /a\nUser-agent: c\nDisallow: /c\nUser-agent: bot\nDisallow: /b\n", "bot", "/b", false},
		{"several agents", "User-agent: a\nUser-agent: bot\nDisallow: /\n", "bot", "/", false},
		{"blank line ends no group", "User-agent: bot\n\nDisallow: /\n", "bot", "/", false},
		{"sitemap ends no agents", "User-agent: a\nSitemap: http://h/s\nUser-agent: bot\nDisallow: /\n", "a", "/", false},
		{"rules before any group", "Disallow: /\n" + all + "Disallow: /x\n", "bot", "/y", true},
		{"space before the colon", "User-agent : bot\ndisallow : /\n", "bot", "/", false},
		{"spaces around", "  user-AGENT:\tbot  \n\tDISALLOW:  /a \n", "bot", "/a", false},
		{"comments", "# x\nUser-agent: bot # us\nDisallow: /a#b\n", "bot", "/ab", false},
		{"CR", "User-agent: bot\rDisallow: /\r", "bot", "/", false},
		{"CRLF", "User-agent: bot\r\nDisallow: /\r\n", "bot", "/", false},
		{"BOM before a later group", all + "Allow: /\n\xef\xbb\xbfUser-agent: bot\nDisallow: /\n", "bot", "/", false},
		{"UTF-16", "\xff\xfe" + strings.ReplaceAll(" User-agent: bot\nDisallow: /\n", "", "\x00")[1:], "bot", "/", false},
		{"BOM", "\xef\xbb\xbfUser-agent: bot\nDisallow: /\n", "bot", "/", false},
		{"no line end", "User-agent: bot\nDisallow: /", "bot", "/", false},
		{"HTML instead", "<html><p style='color: red'>Not found</p></html>", "bot", "/", true},
		{"unknown lines", "User-agent: bot\nNoise: x\nDisallow: /\n", "bot", "/", false},
		{"empty path is the root", all + "Disallow: /$\n", "bot", "", false},
	} {
		if got := ParseRobots([]byte(tt.robots)).Allowed(tt.agent, tt.path); got != tt.want {
			t.Errorf("%s: Allowed(%q, %q) = %v, want %v by\n%s", tt.name, tt.agent, tt.path, got, tt.want, tt.robots)
		}
	}
}

func TestLongFile(t *testing.T) {
	rules := "User-agent: *\n" + strings.Repeat("# filler, filler, filler, filler\n", MaxRobots/33) + "Disallow: /abcdefghijklmnopqrst\nDisallow: /b\n"
	r := ParseRobots([]byte(rules))
	if !r.Allowed("bot", "/b") || !r.Allowed("bot", "/abc") {
		t.Error("a rule beyond the limit was applied")
	}
}

func TestCrawlDelay(t *testing.T) {
	for _, tt := range []struct {
		value string
		want  time.Duration
	}{
		{"10", 10 * time.Second},
		{"0.5", 500 * time.Millisecond},
		{"1e30", MaxCrawlDelay},
		{"-1", 0},
		{"NaN", 0},
		{"soon", 0},
		{"", 0},
	} {
		r := ParseRobots(fmt.Appendf(nil, "User-agent: bot\nCrawl-delay: %s\nDisallow: /x\nUser-agent: *\nCrawl-delay: 99\n", tt.value))
		if got := r.CrawlDelay("bot"); got != tt.want {
			t.Errorf("Crawl-delay: %s gave %v, want %v", tt.value, got, tt.want)
		}
	}
}

func TestSitemaps(t *testing.T) {
	r := ParseRobots([]byte("Sitemap: http://h/a.xml\nUser-agent: x\nsitemap:http://h/b.xml # b\n"))
	if got := strings.Join(r.Sitemaps, " "); got != "http://h/a.xml http://h/b.xml" {
		t.Errorf("sitemaps %q", got)
	}
}

func FuzzParseRobots(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /*a$\nAllow: /%zz\nCrawl-delay: 1\n"), "/aa")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		r := ParseRobots(text)
		r.Allowed("bot", path)
		if !r.Allowed("bot", "/robots.txt") {
			t.Error("/robots.txt is not allowed")
		}
		if d := r.CrawlDelay("bot"); d < 0 || d > MaxCrawlDelay {
			t.Errorf("delay %v", d)
		}
	})
}
