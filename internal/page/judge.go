package page

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Mark says what an answer is if it is no page.
type Mark string

// Marks of answers. None is for pages.
const (
	None    Mark = ""
	Blocked Mark = "blocked" // the robot is turned away, or asked to prove that it is a person
	Missing Mark = "soft404" // "not found" with status 200
	Parked  Mark = "parked"  // the domain shows advertisements or is for sale
	Priced  Mark = "priced"  // the robot would have to pay
	Licence Mark = "licence" // the robot would have to hold a licence
)

// Look is an answer to be judged.
type Look struct {
	Status int
	Header http.Header
	Title  string
	Text   string // what a reader sees, as Page has it
	More   bool   // Text is not all
	Body   []byte // beginning of the markup; only ASCII is looked for
}

// The most text of an answer that is no page, in bytes. It depends on the sign beside the text.
const (
	fewWords = 400  // beside a sign that real pages may have too, such as a script of a protection service
	aNote    = 1500 // beside a clear title
	aPage    = 4000 // beside a sign of parking
)

// Enough is how many bytes of a page's text Judge needs. A Sketch needs all of the text.
const Enough = aPage + 1

// Judge returns what the answer is, and why. For a page it returns None and "".
func Judge(p *Look) (Mark, string) {
	if why := blocked(p); why != "" {
		return Blocked, why
	}
	if p.Status != http.StatusOK && p.Status != http.StatusNonAuthoritativeInfo {
		return None, "" // the status is clear
	}
	if why := parked(p); why != "" {
		return Parked, why
	}
	if !p.More && len(p.Text) <= aNote && slices.ContainsFunc(titles(p), missingTitle.MatchString) {
		switch {
		case missingText.MatchString(beside(p)):
			return Missing, "its title and its text say so"
		case visitorTitle.MatchString(p.Title) && len(p.Text) <= fewWords:
			return Missing, "its title tells the visitor so"
		case missingMarkup.Match(p.Body) && len(p.Text) <= fewWords:
			return Missing, "its title and its markup say so"
		}
	}
	return None, ""
}

// Terms returns what a refusal asks for, by its status and header: a price (status 402, or
// Crawler-Price as CDNs send it), or a licence (Really Simple Licensing 1.0: WWW-Authenticate:
// License, or a Link to a licence). It returns None for any other answer.
func Terms(status int, h http.Header) Mark {
	if status != http.StatusPaymentRequired && status != http.StatusForbidden && status != http.StatusUnauthorized {
		return None
	}
	links := strings.ToLower(strings.Join(h.Values("Link"), ","))
	switch {
	case len(h.Values("Crawler-Price")) > 0:
		return Priced
	case strings.Contains(links, "application/rsl+xml"), slices.ContainsFunc(h.Values("Www-Authenticate"), func(v string) bool {
		scheme, _, _ := strings.Cut(strings.TrimSpace(v), " ")
		return strings.EqualFold(scheme, "License")
	}):
		return Licence
	case status == http.StatusPaymentRequired:
		return Priced
	}
	return None
}

// The traces of protection services in header or markup of a challenge.
var blockers = []struct {
	name   string
	header string // "name: value" of challenges only
	markup string // in pages with little text
	title  string // in lower case; if markup is set too, both must match
}{
	{name: "Cloudflare", header: "cf-mitigated: challenge"},
	{name: "Cloudflare", markup: "/cdn-cgi/", title: "just a moment"},
	{name: "Cloudflare", markup: "/cdn-cgi/", title: "attention required!"},
	{name: "Cloudflare", markup: "/cdn-cgi/", title: "しばらくお待ちください"},
	{name: "Cloudflare", markup: "cf-error-details", title: "access denied"},
	{name: "Akamai", markup: "errors.edgesuite.net", title: "access denied"},
	{name: "Akamai", markup: "/_sec/cp_challenge/"},
	{name: "AWS", header: "x-amzn-waf-action: challenge"},
	{name: "AWS", header: "x-amzn-waf-action: captcha"},
	{name: "AWS", markup: "window.gokuProps"},
	{name: "Imperva", markup: "Incapsula incident ID"},
	{name: "Imperva", markup: "_Incapsula_Resource?SWUDNSAI"},
	{name: "Imperva", markup: "made us think", title: "pardon our interruption"},
	{name: "DataDome", markup: "captcha-delivery.com"},
	{name: "HUMAN", markup: `id="px-captcha"`},
	{name: "Sucuri", markup: "sucuri.net", title: "sucuri website firewall"},
	{name: "DDoS-Guard", markup: "ddos-guard", title: "ddos-guard"},
	{name: "Kasada", markup: "window.KPSDK"},
	{name: "Anubis", markup: "anubis_challenge"},
}

func blocked(p *Look) string {
	title := strings.ToLower(p.Title)
	for _, b := range blockers {
		if b.header != "" {
			name, value, _ := strings.Cut(b.header, ": ")
			if strings.EqualFold(strings.TrimSpace(p.Header.Get(name)), value) {
				return b.name
			}
			continue
		}
		if p.More || len(p.Text) > aNote || b.title == "" && len(p.Text) > fewWords {
			continue
		}
		if strings.HasPrefix(title, b.title) && bytes.Contains(p.Body, []byte(b.markup)) {
			return b.name
		}
	}
	if p.More || len(p.Text) > aNote {
		return ""
	}
	refused := p.Status == http.StatusForbidden || p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable
	switch {
	case (refused || mentions(p.Body, "captcha") || mentions(p.Body, "turnstile")) && challengeText.MatchString(p.Text):
		return "it asks for proof of being human"
	case refused && blockedText.MatchString(p.Title+"\n"+p.Text):
		return "it refuses access"
	case p.Status == http.StatusOK && blockedTitle.MatchString(p.Title) && (blockedText.MatchString(beside(p)) || noPermission.MatchString(beside(p))):
		return "its title and its text refuse access"
	}
	return ""
}

var (
	blockedTitle = regexp.MustCompile(`(?i)^\W*(error\W*)?(403\W*)?(access (is |was |has been )?(denied|forbidden|blocked)|request (blocked|rejected)|forbidden\W*$|403\W*$|security check\W*$|robot check\W*$|human verification|are you (a )?(human|robot)|you have been blocked|web page blocked|ddos protection|アクセス(は|が)?(拒否|禁止|遮断|制限)され|アクセス拒否|アクセスが集中|不正(な)?アクセスを検(知|出)|閲覧が?(禁止|制限)され)`)
	blockedText  = regexp.MustCompile(`(?i)access (to [^.]{1,80} )?(is |was |has been )?(denied|forbidden|blocked|restricted)|(you|your (ip|request|access))[^.]{0,40} (denied|blocked|banned|rejected|not allowed)|unusual traffic|automated (requests|access|queries)|アクセス(は|が|を)?(拒否|禁止|遮断|制限)|(不正|大量)な?アクセス|アクセスが集中|閲覧が?(禁止|制限)|許可されていません|権限がありません`)

	challengeText = regexp.MustCompile(`(?i)(verify|prove|confirm)[^.]{0,30} (you are|you're|you aren't|you are not|that you)[^.]{0,20} (human|robot|bot)|i'?m not a robot|are you a robot|checking (if the site connection is secure|your browser)|enter the characters you see|complete the (captcha|security check)|ロボットで(は)?ない|ロボットではありません|人間であること|画像に(表示され|書かれ)[^。]{0,20}文字|セキュリティチェックを完了`)

	missingTitle = regexp.MustCompile(`(?i)^\W*(http\W*)?(error\W*)?404(\W|$)|(page|file|document|url|object)s? (was |is |could |can |has )?(not (be )?(found|exist)|cannot be found|can't be found|does not exist|doesn't exist|missing)|^\W*not found\W*$|(ページ|ファイル|記事|url|ＵＲＬ)(は|が)[^。]{0,12}((見|み)つかりません|存在しません|ありません|(見|み)つかりませんでした|見当たりません)|^\W*(見|み)つかりません`)
	missingText  = regexp.MustCompile(`(?i)404 not found|(could|can|was|were|is|are)(not| not|n't) (be )?found|page not found|(does not|doesn't|no longer) exist|cannot be found|can't find|(見|み)つかりません|存在しません|見当たりません|削除された|移動(した|された)|(ページ|ファイル|記事)(は|が)ありません`)
)

var (
	noPermission = regexp.MustCompile(`(do not|don't) have (permission|access)`)

	// visitorTitle addresses the visitor, which the title of a real page does not.
	visitorTitle = regexp.MustCompile(`(?i)(page|file|document|url) (that )?you|requested (page|file|document|url)|お探しの|ご指定の|お求めの|アクセスされた`)
	// missingMarkup matches the markup of pages that do not exist: the names that content systems
	// give them, noindex, and links to /404.
	missingMarkup = regexp.MustCompile(`(?i)(class|id)\s*=\s*["'][^"']*(error-?404|404-?error|page-?404|404-?page|not-?found)|<meta[^>]{1,60}noindex|href\s*=\s*["'][^"']*/404(\.[a-z]+)?/?["']`)
	titleParts    = regexp.MustCompile(`\s*[|｜:：–—»«]\s*|\s+-\s+`)
)

// titles returns a page's title and its parts, since many titles have the site's name too.
func titles(p *Look) []string {
	return append([]string{p.Title}, titleParts.Split(p.Title, -1)...)
}

// beside returns a page's text without its title and the title's parts, which headings repeat.
func beside(p *Look) string {
	text := strings.ToLower(p.Text)
	for _, part := range titles(p) {
		if part = strings.TrimSpace(strings.ToLower(part)); len(part) > 2 {
			text = strings.ReplaceAll(text, part, " ")
		}
	}
	return text
}

// mentions reports whether a text has a word, in small or capital letters. The given word must be
// in lower case. It is a quick test before a slow regular expression.
func mentions[T string | []byte](text T, word string) bool {
	first := word[0] | 0x20
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == first && strings.EqualFold(string(text[i:i+len(word)]), word) {
			return true
		}
	}
	return false
}

// parkingHosts are the hosts, some with a path, that serve parked domains. A page with little text
// that names one of them in a URL is parked, if its title or text hints at that or if it has no
// text.
var parkingHosts = []string{
	"sedoparking.com", "parkingcrew.net", "bodis.com", "parklogic.com", "above.com/marketplace", "dan.com/buy-domain",
	"afternic.com/forsale", "hugedomains.com/domain_profile", "d38psrni17bvxu.cloudfront.net", "domainactive.co",
	"skenzo.com", "rookmedia.net", "voodoo.com/domains", "img1.wsimg.com/parking-lander", "parking.godaddy.com",
	"cashparking.com", "parkweb.co.jp", "parking.value-domain.com", "onamae.com/parking", "parking.muumuu-domain.com",
	"sav.com/domain", "undeveloped.com/buy-domain", "epik.com/parking", "parkpage.foundationapi.com",
}

var (
	parkedTitle = regexp.MustCompile(`(?i)(domain|[a-z0-9-]+\.[a-z]{2,6})( name)? (is|may be|might be) for sale|buy this domain|^\W*parked domain|domain (name )?(has )?expired|domain parking|ドメインパーキング|ドメイン(の|は)?(販売|有効期限|期限切れ|失効)|このドメイン`)
	bareTitle   = regexp.MustCompile(`(?i)^\s*([a-z0-9-]+\.)*[a-z0-9-]+\.[a-z]{2,}\s*$|^\s*$`) // the domain's name, or nothing
	parkedText  = regexp.MustCompile(`(?i)(this|the) domain( name)?[^.]{0,60} (is|may be|might be) for sale|buy this domain|(this|the) domain( name)? (is|has been) (parked|registered (at|by|with)|expired)|domain (name )?(has )?expired|this (web ?)?page is parked|このドメイン(名)?(は|が|を)[^。]{0,40}(販売|売却|譲渡|取得|期限|失効|更新され|登録され|利用されて|使用されて|パーキング)|ドメインパーキング`)
)

func parked(p *Look) string {
	if p.More || len(p.Text) > aPage {
		return ""
	}
	said := mentions(p.Text, "domain") || mentions(p.Text, "ドメイン") || mentions(p.Text, "parked")
	titled := parkedTitle.MatchString(p.Title) || bareTitle.MatchString(p.Title) && len(p.Text) <= fewWords
	if said && titled && parkedText.MatchString(p.Text) {
		return "it says that the domain is for sale or expired"
	}
	if len(p.Text) > aNote || !titled && !said && p.Text != "" {
		return ""
	}
	for _, host := range parkingHosts {
		if loads(p.Body, host) {
			return host
		}
	}
	return ""
}

// loads reports whether the markup names the host in a URL.
func loads(markup []byte, host string) bool {
	for {
		i := bytes.Index(markup, []byte(host))
		if i < 0 {
			return false
		}
		if i > 0 && (markup[i-1] == '/' || markup[i-1] == '.') {
			return true
		}
		markup = markup[i+len(host):]
	}
}
