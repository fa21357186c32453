package page

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

func look(t testing.TB, status int, header http.Header, body string) *Look {
	t.Helper()
	p, err := Links([]byte(body), "text/html; charset=utf-8", "http://h/")
	if err != nil {
		t.Fatal(err)
	}
	return &Look{Status: status, Header: header, Title: p.Title, Text: p.Text, More: p.MoreText, Body: []byte(body)}
}

const (
	filler   = "日本語の長い本文がここに続きます。"
	fillerEN = "A long text about something follows here. "
)

func TestJudge(t *testing.T) {
	long, longEN := strings.Repeat("<p>"+filler, 100), strings.Repeat("<p>"+fillerEN, 100)
	for _, tt := range []struct {
		name   string
		status int
		header http.Header
		body   string
		want   Mark
	}{
		{"Cloudflare's challenge", 403, http.Header{"Cf-Mitigated": {"challenge"}}, "<title>Just a moment...</title>", Blocked},
		{"Cloudflare's challenge without the header", 503, nil, `<title>Just a moment...</title><noscript>Enable JavaScript and cookies to continue</noscript><script src="/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1">`, Blocked},
		{"Cloudflare's challenge in Japanese", 403, nil, `<title>しばらくお待ちください...</title><script src="/cdn-cgi/challenge-platform/h/b/x">`, Blocked},
		{"Cloudflare's block", 403, nil, `<title>Attention Required! | Cloudflare</title><h1>Sorry, you have been blocked</h1><img src=/cdn-cgi/images/x.png>`, Blocked},
		{"Akamai", 403, nil, `<TITLE>Access Denied</TITLE><H1>Access Denied</H1>You don't have permission to access "http&#58;&#47;&#47;www&#46;example&#46;jp&#47;" on this server.<P>Reference&#32;&#35;18&#46;4c<P>https://errors.edgesuite.net/18.4c`, Blocked},
		{"Akamai with 200", 200, nil, `<TITLE>Access Denied</TITLE><H1>Access Denied</H1>You don't have permission to access "http://x/" on this server.<P>Reference #18.1`, Blocked},
		{"Imperva", 200, nil, `<html><head><META NAME="robots" CONTENT="noindex,nofollow"><script src="/_Incapsula_Resource?SWUDNSAI=31"></script></head><body><iframe>Request unsuccessful. Incapsula incident ID: 1</iframe>`, Blocked},
		{"DataDome", 403, nil, `<title>example.jp</title><p>Please enable JS and disable any ad blocker<script src="https://ct.captcha-delivery.com/c.js">`, Blocked},
		{"AWS", 202, http.Header{"X-Amzn-Waf-Action": {"challenge"}}, "", Blocked},
		{"reCAPTCHA", 200, nil, `<title>Robot Check</title><p>To continue, please verify that you are not a robot.<div class=g-recaptcha></div>`, Blocked},
		{"reCAPTCHA in Japanese", 200, nil, `<title>確認</title><p>あなたがロボットではないことを確認してください。<div class="h-captcha"></div>`, Blocked},
		{"plain 403", 403, nil, `<title>403 Forbidden</title><h1>Forbidden</h1><p>You don't have permission to access /x on this server.`, None},
		{"Japanese refusal", 403, nil, `<title>エラー</title><p>お使いのIPアドレスからのアクセスは拒否されました。`, Blocked},
		{"Japanese refusal with 200", 200, nil, `<title>アクセスが制限されています</title><p>海外からの閲覧は許可されていません。`, Blocked},
		{"too many", 429, nil, `<p>大量アクセスを検知しました。`, Blocked},
		{"busy", 503, nil, `<title>503</title><p>現在メンテナンス中です。`, None},
		{"not found and says so", 404, nil, `<title>404 Not Found</title>`, None},

		{"soft 404", 200, nil, `<title>404 Not Found</title><h1>Not Found</h1><p>The page was not found.`, Missing},
		{"soft 404 of a shop", 200, nil, `<title>Page not found | Example</title><body class="blog error404"><ul><li>Home<li>Shop<li>About</ul>`, Missing},
		{"soft 404 in Japanese", 200, nil, `<title>ページが見つかりません｜例社</title><p>お探しのページは移動したか、削除された可能性があります。` + strings.Repeat(filler, 10), Missing},
		{"soft 404 in Japanese, polite", 200, nil, `<title>お探しのページは見つかりませんでした</title><p>トップへ`, Missing},

		{"parked", 200, nil, `<title>example.jp</title><frameset><frame src="http://www.sedoparking.com/example.jp"></frameset>`, Parked},
		{"for sale", 200, nil, `<title>example.jp is for sale</title><p>This domain is for sale. Make an offer.` + strings.Repeat("<p>Buy with trust", 50), Parked},
		{"expired in Japanese", 200, nil, `<title>ドメインの有効期限</title><p>このドメインは有効期限が切れています。更新手続きをしてください。`, Parked},
		{"not used in Japanese", 200, nil, `<title>example.jp</title><p>このドメインはお名前.comで取得されています。`, Parked},

		// Pages that speak of all this.
		{"about 403", 200, nil, `<title>403 Forbidden の対処方法</title><p>アクセスが拒否されました、と出るときは` + long, None},
		{"about access", 200, nil, `<title>Access denied: how Apache decides</title><p>You don't have permission to access` + longEN, None},
		{"about 404", 200, nil, `<title>404 Not Found とは</title><p>ページが見つかりません` + long, None},
		{"about domains", 200, nil, `<title>ドメインの有効期限について</title><p>このドメインは有効期限が切れています、と出たら` + long, None},
		{"guarded by Cloudflare", 200, nil, `<title>Top</title><p>short<script src="/cdn-cgi/challenge-platform/scripts/jsd/main.js"></script>`, None},
		{"with a captcha of its own", 200, nil, `<title>掲示板</title><p>書き込む<div class=g-recaptcha></div>`, None},
		{"nothing", 200, nil, ``, None},
		{"short", 200, nil, `<title>無題</title><p>工事中`, None},
		{"access", 200, nil, `<title>アクセス</title><p>駅から徒歩5分。地図`, None},
		{"members only", 200, nil, `<title>会員専用</title><p>ログインしてください`, None},
		{"links to a marketplace", 200, nil, `<title>リンク集</title><p><a href=https://www.notsedoparking.com/>x</a>`, None},
	} {
		if got, why := Judge(look(t, tt.status, tt.header, tt.body)); got != tt.want {
			t.Errorf("%s: %q by %q, want %q", tt.name, got, why, tt.want)
		}
	}
}

// A refusal with a price or a licence says so, whatever its page has. Other statuses ask nothing.
func TestTerms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		header http.Header
		want   Mark
	}{
		{402, nil, Priced},
		{402, http.Header{"Crawler-Price": {"USD 0.01"}}, Priced},
		{403, http.Header{"Crawler-Price": {"USD 0.01"}, "Link": {`<l.xml>; rel="license"; type="application/rsl+xml"`}}, Priced},
		{403, http.Header{"Link": {"<a.css>; rel=preload", `</l.xml>; rel="license"; type="application/rsl+xml"`}}, Licence},
		{402, http.Header{"Www-Authenticate": {`License error="invalid_request"`}}, Licence},
		{401, http.Header{"Www-Authenticate": {`Basic realm="x"`, `license`}}, Licence},
		{401, http.Header{"Www-Authenticate": {`Basic realm="License"`}}, None},
		{403, nil, None},
		{200, http.Header{"Crawler-Price": {"USD 0.01"}, "Link": {`</l.xml>; rel="license"; type="application/rsl+xml"`}}, None},
		{503, http.Header{"Crawler-Price": {"USD 0.01"}}, None},
	} {
		if got := Terms(tt.status, tt.header); got != tt.want {
			t.Errorf("%d %v: %q, want %q", tt.status, tt.header, got, tt.want)
		}
	}
}

func TestSketch(t *testing.T) {
	s := NewSketcher()
	errorPage := func(name, at string) string {
		return "<title>例社</title><ul><li>ホーム<li>製品情報<li>会社案内<li>採用情報<li>お問い合わせ</ul><p>ご指定の " + name +
			" はございません。URL をお確かめください。" + at + "<p>〒160-0001 東京都新宿区 例社"
	}
	probe := s.Sketch(look(t, 200, nil, errorPage("/k3x9q.html", "2026-11-21 02:03:04")), "http://h/k3x9q.html")
	if !probe.Like(s.Sketch(look(t, 200, nil, errorPage("/old/news.html", "2026-11-21 02:05:59")), "http://h/old/news.html")) {
		t.Error("the same error page for another URL is not recognised")
	}
	for name, body := range map[string]string{
		"another title":    strings.Replace(errorPage("/a.html", ""), "<title>", "<title>製品 ", 1),
		"another text":     strings.Replace(errorPage("/a.html", ""), "はございません。URL をお確かめください。", "の新製品が出ました。詳しくは営業所まで。", 1),
		"more text":        errorPage("/a.html", "") + strings.Repeat("。さらに続きます", 5),
		"nothing":          "",
		"the same in less": "<title>例社</title><p>ホーム",
	} {
		if probe.Like(s.Sketch(look(t, 200, nil, body), "http://h/a.html")) {
			t.Errorf("%s: taken for the error page", name)
		}
	}
	empty := s.Sketch(look(t, 200, nil, ""), "http://h/x.html")
	if !empty.Like(s.Sketch(look(t, 200, nil, ""), "http://h/y.html")) || empty.Like(probe) {
		t.Error("an empty answer for missing pages is not told apart")
	}
}

// No page of the shared corpus, 38 sites, is taken for anything but a page. Tried are one page in
// five without the three largest sites, with SHEAF_TEST_CORPUS=most all without those, and with
// SHEAF_TEST_CORPUS=1 all 286 MB.
func TestVerdictsOfCorpus(t *testing.T) {
	testkit.Long(t)
	least, oneIn, large := 300, 5, "httpd.test groonga.test www.boost.jp.test" // hosts
	switch os.Getenv("SHEAF_TEST_CORPUS") {
	case "1":
		least, oneIn, large = 4000, 1, ""
	case "most":
		least, oneIn = 1800, 1
	}
	html := regexp.MustCompile(`(?i)\.[sx]?html?(\.[^/]*)?$`)
	met := 0
	wanted := func(name string) bool {
		of := strings.Split(name, "/") // "sites", host and path
		if of[0] != "sites" && of[0] != "derived" || !html.MatchString(name) || slices.Contains(strings.Fields(large), of[1]) {
			return false
		}
		met++
		return met%oneIn == 0
	}
	seen := make(map[string]bool)
	pages := 0
	for name, body := range testkit.CorpusFiles(t, wanted) {
		key := fmt.Sprint(len(body)) + string(body[:min(len(body), 400)]) // the languages of one page are often one file
		if seen[key] {
			continue
		}
		seen[key] = true
		p, err := Links(body, "text/html", "http://h/")
		testkit.Must(t, err)
		pages++
		mark, why := Judge(&Look{Status: 200, Title: p.Title, Text: p.Text, More: p.MoreText, Body: body[:min(len(body), MaxText)]})
		if mark != None {
			t.Errorf("%s: %s by %q: %q %.300q", name, mark, why, p.Title, p.Text)
		}
	}
	if pages < least {
		t.Errorf("%d pages, want at least %d", pages, least)
	}
	t.Logf("%d pages", pages)
}

// An answer is always like itself, whatever it holds, and judged the same again.
func FuzzJudge(f *testing.F) {
	f.Add(200, "Just a moment...", "verify you are human", "/cdn-cgi/")
	f.Add(403, "アクセス拒否", "\xff不正なアクセス", "recaptcha")
	f.Add(200, "x.jp is for sale", "このドメインは販売中", "//sedoparking.com")
	f.Fuzz(func(t *testing.T, status int, title, text, body string) {
		p := &Look{Status: status, Title: title, Text: text, Body: []byte(body)}
		mark, why := Judge(p)
		if again, _ := Judge(p); again != mark || (mark == None) != (why == "") {
			t.Errorf("%q by %q, then %q", mark, why, again)
		}
		s := NewSketcher()
		if !s.Sketch(p, "http://h/x.html").Like(s.Sketch(p, "http://h/x.html")) {
			t.Error("not like itself")
		}
	})
}

func BenchmarkSketch(b *testing.B) {
	s := NewSketcher()
	p := look(b, 200, nil, string(bytes.Repeat([]byte("<p>"+filler), 100)))
	b.SetBytes(int64(len(p.Text)))
	for b.Loop() {
		s.Sketch(p, "http://h/x.html")
	}
}

// TestOneSignIsNotEnough: short real pages that are called as error pages are, or speak of errors,
// are kept.
func TestOneSignIsNotEnough(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a film":             `<title>Access Denied</title><h1>Access Denied</h1><p>A film by Anna Miller. 1998, 92 minutes.`,
		"a film on a site":   `<title>Access Denied - Film Archive</title><h1>Access Denied</h1><p>In Access Denied a clerk loses his keys.`,
		"a band":             `<title>Error 404 (band)</title><h1>Error 404</h1><p>Error 404 is a rock band from Osaka, founded in 2004.`,
		"a song":             `<title>Not Found</title><h1>Not Found</h1><p>The third song of the album. 3:41.`,
		"a room":             `<title>404</title><p>Room 404: the reading circle meets on Tuesdays.`,
		"a house number":     `<title>404 Main Street</title><p>Two bedrooms, a garden.`,
		"a poem":             `<title>Pardon our interruption</title><p>the rain said to the roof`,
		"a security check":   `<title>Security check</title><p>We check bicycles for free each first Monday.`,
		"a Japanese novel":   `<title>アクセス拒否</title><h1>アクセス拒否</h1><p>山田太郎の第三作。文庫、三百頁。`,
		"a Japanese story":   `<title>ページが見つかりません</title><h1>ページが見つかりません</h1><p>短編。二〇一九年の作。`,
		"a note on a domain": `<title>Memo</title><p>This domain is registered by my brother. I pay for it.`,
		"a list of links":    `<title>Links</title><p>Where I sold mine: <a href=https://www.sedoparking.com/>here</a>.`,
	} {
		if got, why := Judge(look(t, 200, nil, body)); got != None {
			t.Errorf("%s is taken for %s: %s", name, got, why)
		}
	}
	for name, tt := range map[string]struct {
		body string
		want Mark
	}{
		"a heading and a sentence": {`<title>404 Not Found</title><h1>Not Found</h1><p>The requested URL /x was not found on this server.`, Missing},
		"a polite one":             {`<title>Not found - Example</title><p>Sorry, the page you are looking for does not exist.`, Missing},
		"of a page maker":          {`<title>404 | Example</title><body class="error404"><a href=/>Home</a>`, Missing},
		"not for robots":           {`<title>Page not found</title><meta name="robots" content="noindex"><a href=/>Home</a>`, Missing},
		"a firewall":               {`<title>Access Denied</title><h1>Access Denied</h1><p>Your request was blocked by the administrator.`, Blocked},
		"Imperva":                  {`<title>Pardon Our Interruption</title><p>Something about your browser made us think you were a bot.`, Blocked},
		"parked":                   {`<title>example.jp</title><p>This domain is parked.`, Parked},
		"parked elsewhere":         {`<title></title><script src=https://www.sedoparking.com/x.js></script>`, Parked},
	} {
		if got, _ := Judge(look(t, 200, nil, tt.body)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
