package webpage

import (
	_ "embed"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/mux"
	"golang.org/x/text/language"
)

const (
	languageCookie = "lang"       // cookie with the language that the reader has chosen
	languagePath   = "/language/" // path that sets the cookie

	// VaryLanguage names the headers by which Language chooses, as a value of the header Vary.
	VaryLanguage = "Accept-Language, Cookie"
)

// choose stores the reader's choice of a language in the cookie, and redirects back.
func choose(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: languageCookie, Value: mux.Vars(r)["lang"], Path: "/", MaxAge: 365 * 24 * 3600,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil})
	_ = SeeOther(w, LocalPath(r.URL.Query().Get("back")))
}

// LocalPath checks the target to which a request wants to be redirected. If asked is a path of this
// service, perhaps with a query, LocalPath returns it. For anything else, such as the URL of
// another site, it returns "/".
func LocalPath(asked string) string {
	u, err := url.ParseRequestURI(asked)
	if err != nil || u.Host != "" || u.Scheme != "" || u.Opaque != "" || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") || strings.Contains(u.Path, "\\") {
		return "/"
	}
	return u.RequestURI()
}

// Language chooses between English and Japanese, "en" and "ja": by the reader's earlier choice, or
// else by the browser's Accept-Language.
func Language(r *http.Request) string {
	if c, err := r.Cookie(languageCookie); err == nil && (c.Value == "en" || c.Value == "ja") {
		return c.Value
	}
	wanted, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return "en"
	}
	for _, tag := range wanted {
		switch base, _ := tag.Base(); base.String() {
		case "ja", "en":
			return base.String()
		}
	}
	return "en"
}

// japaneseText has a line for each English text of the pages: the text, a tab, and its Japanese.
//
//go:embed japanese.txt
var japaneseText string

var japanese = readDictionary(japaneseText)

func readDictionary(text string) map[string]string {
	d := make(map[string]string)
	for line := range strings.Lines(text) {
		if english, translated, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			d[english] = translated
		}
	}
	return d
}

// N translates a text about a number n: one if n is 1, otherwise many, with n in place of its %s.
// In Japanese it always translates many.
func (p Page) N(one, many string, n any) string {
	text := many
	if fmt.Sprint(n) == "1" && p.Lang != "ja" {
		text = one
	}
	return p.T(text, p.Number(n))
}

// T returns the translation of an English text into the page's language, or the text itself if it
// has no translation. With values it formats the text as fmt.Sprintf does.
func (p Page) T(english string, values ...any) string {
	text := english
	if p.Lang == "ja" {
		if translated, ok := japanese[english]; ok {
			text = translated
		}
	}
	if len(values) == 0 {
		return text
	}
	return fmt.Sprintf(text, values...)
}
