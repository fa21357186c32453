package webpage

import (
	_ "embed"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

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

// Number formats a number with commas between groups of three digits.
func (Page) Number(n any) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Bytes formats a number of bytes with a decimal unit: 999 B, 1.2 MB, 45 GB.
func (Page) Bytes(n int64) string { return amount(float64(n)) + "B" }

// Rate formats a rate in bytes a second, with a decimal unit.
func (Page) Rate(perSecond float64) string { return amount(perSecond) + "B/s" }

// amount formats a number with at most three digits, and the prefix of its unit.
func amount(n float64) string {
	unit := 0
	for ; n >= 999.5 && unit < len(prefixes)-1; unit++ {
		n /= 1000
	}
	if unit == 0 || n >= 9.95 {
		return strconv.FormatFloat(n, 'f', 0, 64) + " " + prefixes[unit]
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + " " + prefixes[unit]
}

var prefixes = []string{"", "k", "M", "G", "T", "P", "E"}

// Clock formats a time to the minute, in the service's zone; "–" for the zero time.
func (p Page) Clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return p.Local(t).Format("2006-01-02 15:04 MST")
}

// Second formats a time to the second, in the service's zone.
func (p Page) Second(t time.Time) string { return p.Local(t).Format("2006-01-02 15:04:05 MST") }

// Date formats the day of a time, in the service's zone; "–" for the zero time.
func (p Page) Date(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return p.Local(t).Format("2006-01-02")
}

// Took formats a duration in at most two units, such as hours and minutes.
func (p Page) Took(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return p.T("%d days", int(d.Hours()/24))
	case d >= time.Hour:
		return p.T("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return p.T("%d min", int(d.Minutes()))
	}
	return p.T("%d s", int(d.Seconds()))
}

// Local returns a time in the service's zone, or in UTC if Zone is nil.
func (s *Site) Local(t time.Time) time.Time {
	if s.Zone == nil {
		return t.UTC()
	}
	return t.In(s.Zone)
}
