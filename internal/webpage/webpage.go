// Package webpage is the one layout of all pages for people: head and foot, style sheet, English
// and Japanese, numbers and times as they are read, and the template of charts. Its style sheet has
// a light and a dark theme, by the reader's system. The pages have one script, and work without it.
package webpage

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sheaf/internal/chart"
)

// Site is what all pages of a service have in common.
type Site struct {
	Name         string         // of the archive; empty: Sheaf
	NameJapanese string         // on Japanese pages; empty: Name
	Contact      string         // mail address or URL of those who run it; may be empty
	Version      string         // of the program
	Zone         *time.Location // of the times on the pages; nil: UTC
}

// Page is what one page is made with: the site, the reader's language, and whether the reader is
// logged in. The data of a page's template embeds it.
type Page struct {
	*Site
	Lang string // en or ja
	Path string // of the request, with its query
	User User
}

// User is the account or operator who has logged in; the zero User is nobody.
type User struct {
	Name    string
	Session bool   // by a session, which can be ended
	Home    string // path of an operator's own pages; empty: an account's, /account
}

type userKey struct{}

// Group is a part of a menu.
type Group struct {
	Name  string
	Links []Link
}

// Link is an entry of a menu.
type Link struct {
	Name, Path string
	Here       bool // it is the page that is shown
}

// around is what the page of an error takes from the request that failed.
type around struct {
	user User
	menu []Group
}

type aroundKey struct{}

// KeepMenu has the page of an error show a menu, in the reader's words, if the request fails.
func KeepMenu(ctx context.Context, menu []Group) {
	if kept, ok := ctx.Value(aroundKey{}).(*around); ok {
		kept.menu = menu
	}
}

// WithUser returns a context for requests of somebody who has logged in.
func WithUser(ctx context.Context, u User) context.Context {
	if kept, ok := ctx.Value(aroundKey{}).(*around); ok {
		kept.user = u
	}
	return context.WithValue(ctx, userKey{}, u)
}

// UserOf returns who has logged in, as WithUser has noted it.
func UserOf(ctx context.Context) User {
	u, _ := ctx.Value(userKey{}).(User)
	return u
}

// For makes the page of a request.
func (s *Site) For(r *http.Request) Page {
	return Page{Site: s, Lang: Language(r), Path: r.URL.RequestURI(), User: UserOf(r.Context())}
}

// Full reports whether the page is as wide as the window. Pages to read are not.
func (Page) Full() bool { return false }

// Title is the archive's name.
func (s *Site) Title() string {
	if s.Name == "" {
		return "Sheaf"
	}
	return s.Name
}

// SiteName is the archive's name in the reader's language.
func (p Page) SiteName() string {
	if p.Lang == "ja" && p.NameJapanese != "" {
		return p.NameJapanese
	}
	return p.Title()
}

// ContactLink is where the contact leads.
func (s *Site) ContactLink() template.URL {
	if strings.Contains(s.Contact, "@") && !strings.Contains(s.Contact, ":") {
		return template.URL("mailto:" + url.PathEscape(s.Contact))
	}
	if u, err := url.Parse(s.Contact); err == nil && (u.Scheme == "https" || u.Scheme == "http" || u.Scheme == "mailto") {
		return template.URL(u.String())
	}
	return ""
}

// InOther leads to the same page in the other language.
func (p Page) InOther() string {
	other := map[string]string{"en": "ja", "ja": "en"}[p.Lang]
	return languagePath + other + "?" + url.Values{"back": {p.Path}}.Encode()
}

// Policy is the Content-Security-Policy of the pages: style sheet, script and pictures of the
// service's own, and nothing inline.
const Policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"

//go:embed layout.html
var layoutText string

var layout = template.Must(template.New("layout").Parse(layoutText + chart.Template))

// Parse reads a page's template, which defines "title" and "main" for the layout. Its data has the
// methods of Page.
func Parse(text string) *template.Template {
	return template.Must(template.Must(layout.Clone()).Parse(text))
}

// ParseFiles is Parse for templates in files of the program, which are joined.
func ParseFiles(files embed.FS, names ...string) *template.Template {
	var all []byte
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is in the program
		}
		all = append(all, text...)
	}
	return Parse(string(all))
}

// Show answers with a page, whose data embeds Page. If the template fails, nothing is written.
func Show(w http.ResponseWriter, r *http.Request, status int, page *template.Template, data any) error {
	var body bytes.Buffer
	if err := page.ExecuteTemplate(&body, "layout", data); err != nil {
		return fmt.Errorf("page %s: %w", r.URL.Path, err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	Protect(h)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "private, no-cache")
	h.Add("Vary", "Accept, "+VaryLanguage)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(body.Bytes())
	}
	return nil
}

// Protect sets the headers that keep HTML of the service from being taken for something else. A
// Content-Security-Policy that is set already stays.
func Protect(h http.Header) {
	if h.Get("Content-Security-Policy") == "" {
		h.Set("Content-Security-Policy", Policy)
	}
	h.Set("X-Content-Type-Options", "nosniff")
}

// Wanted reports whether the request comes from a browser that shows pages to somebody.
func Wanted(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }
