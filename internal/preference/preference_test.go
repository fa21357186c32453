package preference

import (
	"strings"
	"testing"
)

const head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"

func TestOf(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxValue+1)
	for _, test := range []struct{ name, url, head, body, want string }{
		{"nothing", "http://a.jp/", head, "<p>", ""},
		{"headers", "http://a.jp/", head + "content-USAGE:  train-ai=n\r\nX-Robots-Tag: noai\r\nX-Robots-Tag: bot: noindex\r\nTDM-Reservation: 1\r\nCrawler-Price: USD 0.01\r\nContent-Signal: ai-train=no\r\n", "",
			"content-usage=train-ai=n; content-signal=ai-train=no; x-robots-tag=noai, bot: noindex; tdm-reservation=1; crawler-price=USD 0.01"},
		{"meta", "http://a.jp/", head, `<head><META name=Robots content="noindex,  nofollow"><meta name="tdm-policy" content="http://a.jp/p"></head>`,
			"robots=noindex, nofollow; tdm-policy=http://a.jp/p"},
		{"meta in the body is text of the page", "http://a.jp/", head, `<body><meta name=robots content=noindex>`, ""},
		{"meta in a script", "http://a.jp/", head, `<script>'<meta name=robots content=noindex>'</script>`, ""},
		{"no HTML", "http://a.jp/", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n", `<meta name=robots content=noindex>`, ""},
		{"no type", "http://a.jp/", "HTTP/1.1 200 OK\r\n", `<title>t</title><meta name=robots content=noindex>`, "robots=noindex"},
		{"two types", "http://a.jp/", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Type: text/html\r\n", `<meta name=robots content=noindex>`, "robots=noindex"},
		{"XHTML", "http://a.jp/", "HTTP/1.1 200 OK\r\nContent-Type: application/xhtml+xml\r\n", `<html><title/><script src="x"/><meta name="robots" content="noai"/>`, "robots=noai"},
		{"licence in a header", "http://a.jp/", head + `Link: <a.css>; rel=preload, </l.xml>; rel="license"; type="application/rsl+xml"` + "\r\n", "", "license=/l.xml"},
		{"licence of a page", "http://a.jp/", head, `<link rel=license type=application/rsl+xml href="https://a.jp/l.xml"><link rel=license href=cc>`, "license=https://a.jp/l.xml"},
		{"licence in a page", "http://a.jp/", head, `<script type="Application/RSL+xml"><rsl><content url="/"/></rsl></script><script type=text/javascript>x</script><meta name=robots content=noai>`,
			`robots=noai; license=<rsl><content url=%22/%22/></rsl>`},
		{"licence in a page that ends there", "http://a.jp/", head, `<script type=application/rsl+xml>`, ""},
		{"tdmrep.json", "http://a.jp/.well-known/tdmrep.json", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
			`[{"location":"/","tdm-reservation":1,"tdm-policy":"https://a.jp/p.json","other":2},{"location":"/free/*","tdm-reservation":0},{}]`,
			"tdm-reservation=1, /free/* 0; tdm-policy=https://a.jp/p.json"},
		{"tdmrep.json that is none", "http://a.jp/.well-known/tdmrep.json", head, `{"tdm-reservation":1}<meta name=robots content=noai>`, ""},
		{"another tdmrep.json", "http://a.jp/x/.well-known/tdmrep.json", head, `[{"location":"/","tdm-reservation":1}]`, ""},
		{"keys that nobody knows", "http://a.jp/", head + "Content-Signal: search=yes, \xff=\x00, brew=tea;q\r\nContent-Usage: x-new=?1\r\n", "", "content-usage=x-new=?1; content-signal=search=yes, %FF=%00, brew=tea%3Bq"},
		{"quotes and Japanese", "http://a.jp/", head + "X-Robots-Tag: a\"b\\c\x82\xa0;%\r\n", "", "x-robots-tag=a%22b%5Cc%82%A0%3B%25"},
		{"too long", "http://a.jp/", head + "X-Robots-Tag: " + long + "\r\n", "", "x-robots-tag=" + long[1:] + "%"},
		{"robots.txt", "http://a.jp/robots.txt", head,
			"Content-Usage: search=y\nUser-agent: x\nContent-Usage: train-ai=n\nContent-Signal: search=no\nUser-Agent: y\nuser-agent: *\nDisallow: /z # why\nContent-Usage: /img/ train-ai=y # that\rcontent-signal: search=yes,ai-train=no, use=\x83\nLicense: https://a.jp/l.xml\n",
			"content-usage=search=y, /img/ train-ai=y; content-signal=search=yes,ai-train=no, use=%83; license=https://a.jp/l.xml"},
		{"another robots.txt", "http://a.jp/x/robots.txt", head, "License: https://a.jp/l.xml\n", ""},
	} {
		got := Of(test.url, []byte(test.head+"\r\n"), []byte(test.body))
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		if _, err := Parse(got); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"x", "robots", "robots=", "robots=a;license=b", "robots=a; ", "license=b; robots=a", "robots=a; robots=b", "other=a", "robots=%", "robots=a%%",
		"robots=%2", "robots=%zz", "robots=%61", `robots="a"`, "robots=\x80", "robots=\n", "robots=" + strings.Repeat("x", maxValue+1),
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q was taken for %v", text, got)
		}
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	const text = "content-usage=train-ai=n; robots=noindex"
	for s, want := range map[string]bool{
		"any": true, "!any": false, "content-usage": true, "content-usage:TRAIN-AI=N": true, "Content-Usage:train-ai=y": false,
		"license": false, "!license": true, "!robots:noindex": false, "robots:": true,
	} {
		f, err := ParseFilter(s)
		if err != nil || f.Holds(text) != want {
			t.Errorf("%s: %v, error %v", s, f.Holds(text), err)
		}
	}
	for _, s := range []string{"", "!", "x", "any:x", "x-robots"} {
		if _, err := ParseFilter(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
	if !(Filter{}).Holds("") || !(Filter{}).Holds(text) {
		t.Error("no filter does not select all")
	}
}

// What any response asks can be written and read again, within the limit.
func FuzzOf(f *testing.F) {
	f.Add("http://a.jp/", head+"X-Robots-Tag: a\r\nLink: <x>; rel=license; type=application/rsl+xml\r\n\r\n", "<meta name=robots content=a>")
	f.Add("http://a.jp/robots.txt", head, "User-agent: *\nContent-Usage: a\nLicense: b")
	f.Fuzz(func(t *testing.T, url, head, body string) {
		text := Of(url, []byte(head), []byte(body))
		all, err := Parse(text)
		if err != nil || len(text) > MaxLength {
			t.Fatalf("%q: %v, %v", text, all, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("content-usage=train-ai=n; robots=a%22%")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Parse(text)
		if err == nil && (found{all}).String() != text {
			t.Fatalf("%q is %v", text, all)
		}
	})
}
