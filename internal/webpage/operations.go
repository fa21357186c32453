package webpage

import (
	"net/http"
	"reflect"

	"sheaf/internal/audit"
	"sheaf/internal/route"
)

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
