// Package verdict tells pages from answers that only look like pages: those that
// turn a robot away (blocks, challenges), those that say "not found" with status 200
// (soft 404s), and those of domains that nobody uses (parked).
//
// Such an answer must not stand in an archive for the page that it hides. A real
// page that is taken for one would be lost, which is worse, so every rule asks for hardly any text
// and two signs: what a guarding service leaves in header or markup, what the status says,
// what the title says, what the text says beside repeating the title. A title alone never
// decides: films, bands and poems are called "Access Denied" or "Error 404", and their pages are short.
//
// What a host answers where nothing can be is learned by asking for a path that does
// not exist; a page like that answer is missing too (Sketch).
package verdict

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Mark says what an answer is instead of a page.
type Mark string

// The marks.
const (
	None    Mark = ""
	Blocked Mark = "blocked" // the robot is turned away, or asked to prove that it is none
	Missing Mark = "soft404" // "not found", said with status 200
	Parked  Mark = "parked"  // the domain shows advertisements or is for sale
)

// Page is an answer to be judged.
type Page struct {
	Status int
	Header http.Header
	Title  string
	Text   string // what a reader sees, as extract.Page has it
	More   bool   // Text is not all
	Body   []byte // markup, as far as it was read; ASCII is looked for in it
}

// Lengths of text, in bytes, above which an answer is taken for a page whatever it says.
const (
	fewWords = 400  // beside a sign that real pages may carry, such as a script of a guarding service
	aNote    = 1500 // beside a title that says it all
	aPage    = 4000 // beside a sign of parking
)

// Enough is how many bytes of a page's text Judge looks at: one that has more is judged as one of which
// more is not known. A Sketch wants all.
const Enough = aPage + 1

// Judge returns what the answer is, and by which rule.
func Judge(p *Page) (Mark, string) {
	if why := blocked(p); why != "" {
		return Blocked, why
	}
	if p.Status != http.StatusOK && p.Status != http.StatusNonAuthoritativeInfo {
		return None, "" // the status says what it is
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

// The names that guarding services leave in the header or the markup of a challenge.
var blockers = []struct {
	name   string
	header string // "name: value" that only challenges have
	markup string // in a page with few words
	title  string // in lower case; with markup both must be there
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

func blocked(p *Page) string {
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

	// visitorTitle speaks to somebody who asked for a page, which no page's own title does.
	visitorTitle = regexp.MustCompile(`(?i)(page|file|document|url) (that )?you|requested (page|file|document|url)|お探しの|ご指定の|お求めの|アクセスされた`)
	// missingMarkup is what page makers call a page that is not there.
	missingMarkup = regexp.MustCompile(`(?i)(class|id)\s*=\s*["'][^"']*(error-?404|404-?error|page-?404|404-?page|not-?found)|<meta[^>]{1,60}noindex|href\s*=\s*["'][^"']*/404(\.[a-z]+)?/?["']`)
	titleParts    = regexp.MustCompile(`\s*[|｜:：–—»«]\s*|\s+-\s+`)
)

// titles are a page's title and its parts: many have the site's name beside their own.
func titles(p *Page) []string {
	return append([]string{p.Title}, titleParts.Split(p.Title, -1)...)
}

// beside is a page's text without its title and the title's parts, which headings repeat.
func beside(p *Page) string {
	text := strings.ToLower(p.Text)
	for _, part := range titles(p) {
		if part = strings.TrimSpace(strings.ToLower(part)); len(part) > 2 {
			text = strings.ReplaceAll(text, part, " ")
		}
	}
	return text
}

// mentions reports whether a text has a word, which is in lower case. Expressions that are long in
// coming to "no" are only asked about texts that have one of their words.
func mentions[T string | []byte](text T, word string) bool {
	first := word[0] | 0x20
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == first && strings.EqualFold(string(text[i:i+len(word)]), word) {
			return true
		}
	}
	return false
}
