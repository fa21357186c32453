// Package webpage has the common parts of all pages for people: head and foot, style sheet,
// translation into Japanese, formats of numbers and times, and charts. The style
// sheet has a light and a dark theme, chosen by the reader's system. The pages have one script, and
// work without it.
package webpage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/problem"
	"sheaf/internal/route"
)

// Site has the values that all pages of a service share.
type Site struct {
	Name         string         // name of the archive; empty: Sheaf
	NameJapanese string         // name on Japanese pages; empty: Name
	Contact      string         // mail address or URL of the people who run the service; may be empty
	Version      string         // version of the program
	Zone         *time.Location // zone of the times on the pages; nil: UTC
}

// Page has the values for the layout of one page: the site, the reader's language and the user. The
// data of a page's template embeds it.
type Page struct {
	*Site
	Lang string // en or ja
	Path string // of the request, with its query
	User User
}

// User is the account or operator who has logged in; the zero User is nobody.
type User struct {
	Name    string
	Session bool   // the user has logged in by a session, and can log out
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
	Here       bool // the link is that of the current page
}

// around is the part of a failed request that its error page needs.
type around struct {
	user User
	menu []Group
}

type aroundKey struct{}

// KeepMenu makes the error page of the request show a menu. The menu must be in the reader's
// language.
func KeepMenu(ctx context.Context, menu []Group) {
	if kept, ok := ctx.Value(aroundKey{}).(*around); ok {
		kept.menu = menu
	}
}

// WithUser returns a context for requests of a user who has logged in.
func WithUser(ctx context.Context, u User) context.Context {
	if kept, ok := ctx.Value(aroundKey{}).(*around); ok {
		kept.user = u
	}
	return context.WithValue(ctx, userKey{}, u)
}

// UserOf returns the user that WithUser has put into the context.
func UserOf(ctx context.Context) User {
	u, _ := ctx.Value(userKey{}).(User)
	return u
}

// For returns the Page for the answer to a request.
func (s *Site) For(r *http.Request) Page {
	return Page{Site: s, Lang: Language(r), Path: r.URL.RequestURI(), User: UserOf(r.Context())}
}

// Full reports whether the page is as wide as the window. Pages for reading are narrower; wide
// pages have a Full of their own.
func (Page) Full() bool { return false }

// Title returns the archive's name, or "Sheaf" if it has no name.
func (s *Site) Title() string { return cmp.Or(s.Name, "Sheaf") }

// SiteName returns the archive's name in the reader's language.
func (p Page) SiteName() string {
	if p.Lang == "ja" && p.NameJapanese != "" {
		return p.NameJapanese
	}
	return p.Title()
}

// ContactLink returns the URL for the contact, or "" if the contact is neither a mail address nor a
// URL of the web.
func (s *Site) ContactLink() template.URL {
	if strings.Contains(s.Contact, "@") && !strings.Contains(s.Contact, ":") {
		return template.URL("mailto:" + url.PathEscape(s.Contact))
	}
	if u, err := url.Parse(s.Contact); err == nil && (u.Scheme == "https" || u.Scheme == "http" || u.Scheme == "mailto") {
		return template.URL(u.String())
	}
	return ""
}

// InOther returns the path that shows the same page in the other language.
func (p Page) InOther() string {
	other := map[string]string{"en": "ja", "ja": "en"}[p.Lang]
	return languagePath + other + "?" + url.Values{"back": {p.Path}}.Encode()
}

// Policy is the Content-Security-Policy of the pages. It allows style sheets, scripts and pictures
// from the service itself, and nothing inline.
const Policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"

//go:embed layout.html
var layoutText string

var layout = Template(sync.OnceValue(func() *template.Template {
	return template.Must(template.New("layout").Parse(layoutText + chartText))
}))

// Template returns a page's template, and parses it at the first call: most processes show few of
// the pages, and commands none. It panics if the template is wrong. It may be called concurrently.
type Template func() *template.Template

// Parse returns a page's template. The template defines "title" and "main" for the layout. Its data
// must embed Page.
func Parse(text string) Template {
	return sync.OnceValue(func() *template.Template { return template.Must(template.Must(layout().Clone()).Parse(text)) })
}

// ParseFiles is Parse for a template that is joined from files of the program.
func ParseFiles(files embed.FS, names ...string) Template {
	var all []byte
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the template is part of the program
		}
		all = append(all, text...)
	}
	return Parse(string(all))
}

// Show answers with a page. data must embed Page. If the template fails, nothing is written.
func Show(w http.ResponseWriter, r *http.Request, status int, page Template, data any) error {
	var body bytes.Buffer
	if err := page().ExecuteTemplate(&body, "layout", data); err != nil {
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
		w.Write(bytes.Clone(body.Bytes())) // the buffer is about twice as large, and a slow reader would keep it
	}
	return nil
}

// SeeOther sends a browser on to another path or URL.
func SeeOther(w http.ResponseWriter, to string) error {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// Protect sets security headers for HTML of the service. It keeps a Content-Security-Policy that is
// set already.
func Protect(h http.Header) {
	if h.Get("Content-Security-Policy") == "" {
		h.Set("Content-Security-Policy", Policy)
	}
	h.Set("X-Content-Type-Options", "nosniff")
}

// Wanted reports whether the request comes from a browser that wants a page.
func Wanted(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

const (
	html = "text/html"
	form = "application/x-www-form-urlencoded"
)

// Get defines an operation that answers with a page.
func Get[In any, Who ~string](path string, who Who, summary string) route.Op[In, route.None] {
	return forPeople(route.New[In, route.None](http.MethodGet, path, who, audit.None, summary)).Answering(http.StatusOK, "A page").Sends(html)
}

// Form defines an operation that takes a page's form and redirects to a page. The parameter then
// describes that page.
func Form[In any, Who ~string](path string, who Who, act audit.Act, summary, then string) route.Op[In, route.None] {
	op := forPeople(route.New[In, route.None](http.MethodPost, path, who, act, summary)).Answering(http.StatusSeeOther, then)
	if op.In == reflect.TypeFor[route.None]() { // a button
		return op
	}
	return op.Takes(form)
}

// Lead defines an operation that redirects. The parameter to describes the target.
func Lead[In any, Who ~string](path string, who Who, status int, summary, to string) route.Op[In, route.None] {
	return forPeople(route.New[In, route.None](http.MethodGet, path, who, audit.None, summary)).Answering(status, to)
}

// forPeople puts an operation that is not for operators into the description's chapter of pages for
// people.
func forPeople[In any](op route.Op[In, route.None]) route.Op[In, route.None] {
	if op.For == route.Anybody || op.For == route.Account {
		return op.Under("people")
	}
	return op
}

// file defines the operation for a file that pages need.
func file(path, kind, summary, text string) route.Op[route.None, route.None] {
	return route.New[route.None, route.None](http.MethodGet, path, route.Anybody, audit.None, summary).Under("people").Answering(http.StatusOK, text).Sends(kind)
}

// backQuery is the query of the path that chooses the language.
type backQuery struct {
	Back string `query:"back" doc:"a path of this service"`
}

// The operations for files and the language of pages.
var (
	chooser = route.New[backQuery, route.None](http.MethodGet, languagePath+"{lang:en|ja}", route.Anybody, audit.None, "Chooses the language of the pages, and leads back").Under("people").Answering(http.StatusSeeOther, "Back, with a cookie")
	static  = file("/static/{file}", "text/css", "The pages' style sheet, and their script", "The style sheet").Also(http.StatusOK, "text/javascript", "")
	icon    = file("/favicon.svg", "image/svg+xml", "The pages' icon", "The icon")
	oldIcon = file("/favicon.ico", "image/svg+xml", "The same icon", "The icon")
)

// Routes returns the operations, for the API description.
func Routes() []*route.Route {
	return []*route.Route{chooser.Route, static.Route, icon.Route, oldIcon.Route}
}

//go:embed style.css
var styleSheet []byte

//go:embed page.js
var script []byte

//go:embed favicon.svg
var favicon []byte

// The paths of the style sheet and of the script. They change with the contents, so that browsers
// may cache the files.
var stylePath, scriptPath = staticPath(styleSheet, ".css"), staticPath(script, ".js")

func staticPath(content []byte, ending string) string {
	sum := sha256.Sum256(content)
	return "/static/" + hex.EncodeToString(sum[:8]) + ending
}

// StyleSheet returns the path of the style sheet, for templates.
func (Page) StyleSheet() string { return stylePath }

// Script returns the path of the script, for templates.
func (Page) Script() string { return scriptPath }

// kept is a file that browsers may cache.
type kept struct {
	kind, keep string
	content    []byte
}

// files has the cacheable files by path.
var files = map[string]kept{
	stylePath:    {"text/css; charset=utf-8", "public, max-age=31536000, immutable", styleSheet},
	scriptPath:   {"text/javascript; charset=utf-8", "public, max-age=31536000, immutable", script},
	icon.Path:    {"image/svg+xml", "public, max-age=86400", favicon},
	oldIcon.Path: {"image/svg+xml", "public, max-age=86400", favicon},
}

// Register mounts the style sheet, the script and the icons of the pages, and the choice of their
// language.
func Register(r *mux.Router) {
	r.HandleFunc(chooser.Path, choose).Methods(http.MethodGet)
	for _, path := range []string{static.Path, icon.Path, oldIcon.Path} {
		r.HandleFunc(path, serveFile).Methods(http.MethodGet, http.MethodHead)
	}
}

func serveFile(w http.ResponseWriter, r *http.Request) {
	file, ok := files[r.URL.Path]
	if !ok {
		problem.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", file.kind)
	w.Header().Set("Cache-Control", file.keep)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.content))
}
