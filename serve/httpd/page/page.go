// Package page makes the service's own HTML pages: their layout, their texts in English and
// Japanese, and the headers that keep them safe.
package page

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	"golang.org/x/text/language"
)

// policy is the Content-Security-Policy of the service's own pages: no scripts, and nothing from
// other sites.
const policy = "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"

// Protect sets the headers that keep HTML of the service from being taken for something else.
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
}

// Page is what the templates of all pages need. Pages embed it.
type Page struct {
	Lang string // "en" or "ja"
	T    *Wording
	zone *time.Location
}

// New returns a page in the language of the request, with times in the given zone.
func New(r *http.Request, zone *time.Location) Page {
	p := Page{Lang: Language(r), T: &english, zone: zone}
	if p.Lang == "ja" {
		p.T = &japanese
	}
	return p
}

// Clock formats a time for people.
func (p Page) Clock(t time.Time) string { return t.In(p.zone).Format("2006-01-02 15:04:05 MST") }

// Language returns the one of the languages of the pages, "en" or "ja", that the client prefers.
func Language(r *http.Request) string {
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

//go:embed layout.html
var layout string

// Template returns the template of a page in the common layout. The text defines the templates
// "title" and "body".
func Template(text string) *template.Template {
	return template.Must(template.Must(template.New("").Parse(layout)).Parse(text))
}

// Show answers with a page.
func Show(w http.ResponseWriter, r *http.Request, status int, page *template.Template, data any) error {
	var body bytes.Buffer
	if err := page.Execute(&body, data); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	Protect(h)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "private, no-cache")
	if vary := h.Get("Vary"); !strings.Contains(vary, "Accept-Language") {
		h.Add("Vary", "Accept, Accept-Language")
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(body.Bytes())
	}
	return nil
}
