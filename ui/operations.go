package ui

import (
	"net/http"
	"slices"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/watch"
)

// Queries and forms of the pages.
type (
	findQuery struct {
		Q string `query:"q" doc:"a URL, a host or a domain"`
	}
	placeQuery struct {
		After string `query:"after" doc:"where a long list goes on"`
	}
	watchingQuery struct {
		URL  string `query:"url" doc:"a page"`
		Host string `query:"host" doc:"a host"`
	}
	watchForm struct {
		Act    string        `form:"act" enum:"add,save,remove" required:"true"`
		Target string        `form:"target"`
		Kind   watch.Kind    `form:"kind" enum:"url,prefix,host"`
		Email  string        `form:"email"`
		Every  watch.Cadence `form:"every"`
		Watch  string        `form:"watch"`
	}
	accountForm struct {
		Act   string        `form:"act" enum:"password,email,token,revoke" required:"true"`
		Old   string        `form:"old"`
		New   string        `form:"new"`
		Email string        `form:"email"`
		Name  string        `form:"name"`
		Use   []account.Use `form:"use"`
		Days  int           `form:"days" min:"0" max:"36500" doc:"until a token expires; 0: never"`
		Token string        `form:"token"`
	}
)

const html = "text/html"

// Operations for readers.
var (
	front         = route.New[route.None, Front](http.MethodGet, "/", route.Visitor, audit.None, "The front page; its figures as JSON for programs").Under("people").Saying("What the reader's account may not see is left out.").Answering(http.StatusOK, "A page, or JSON").Also(http.StatusOK, html, "")
	find          = webpage.Lead[findQuery](api.PathFind, route.Account, http.StatusSeeOther, "Leads to the page, host or domain that is asked for", "To it").Also(http.StatusNotFound, html, "A page that says so")
	browse        = webpage.Get[placeQuery]("/browse/{place:.*}", route.Account, "The page of a domain or host").Also(http.StatusMovedPermanently, "", "To the path with a slash at its end")
	watching      = webpage.Get[watchingQuery](api.PathWatching, route.Account, "The account's watches; with url or host also a form that watches it")
	changeWatches = webpage.Form[watchForm](api.PathWatching, route.Account, audit.None, "Begins a watch or ends one, by a form of this site", "To the account's watches")
	showAccount   = webpage.Get[route.None](pathAccount, route.Account, "What the account may fetch").Also(http.StatusSeeOther, "", "A browser has not logged in: to the log-in page")
	changeAccount = webpage.Form[accountForm](pathAccount, route.Account, audit.None, "Change the password or the mail address, make a token or revoke one", "Done; back to the page").Saying("No token is good for this.").
			Also(http.StatusOK, html, "The page, with the new token").Also(http.StatusUnprocessableEntity, html, "The page, which says what is wrong")

	webmasters = webpage.Get[route.None]("/webmasters", route.Anybody, "For owners of sites: who visits, and how to be left out")
	robots     = text("/robots.txt", "Keeps search engines to the pages about the archive", "RFC 9309")
	security   = text("/.well-known/security.txt", "Whom to tell of a hole", "RFC 9116")
)

// text defines the operation that answers with a text for programs.
func text(path, summary, answer string) route.Op[route.None, route.None] {
	return route.New[route.None, route.None](http.MethodGet, path, route.Anybody, audit.None, summary).Under("people").Answering(http.StatusOK, answer).Sends("text/plain")
}

func (f *face) forAll(mount route.Mount) { front.Raw(mount, guard.Raw(f.front)) }

func (f *face) forReaders(mount route.Mount) {
	find.Raw(mount, guard.Raw(f.find))
	browse.Raw(mount, guard.Raw(f.place))
}

func (f *face) forAccounts(mount route.Mount) {
	if f.Room.Watches != nil {
		watching.Raw(mount, guard.Raw(f.watching))
		changeWatches.Raw(mount, guard.Raw(f.changeWatches))
	}
	showAccount.Raw(mount, guard.Raw(f.account))
}

func (f *face) forOwners(mount route.Mount) {
	if f.Room.Accounts != nil {
		changeAccount.Raw(mount, guard.Raw(f.changeAccount))
	}
}

func (f *face) forEverybody(mount route.Mount) {
	webmasters.Raw(mount, f.webmasters)
	robots.Raw(mount, robotsTxt)
	security.Raw(mount, f.securityTxt)
}

// Routes returns the operations, for the API description.
func Routes() []*route.Route {
	f := &face{Options: Options{Room: &serve.Room{Accounts: new(account.Accounts), Watches: new(watch.Watches)}}}
	return slices.Concat(route.List(f.forAll), route.List(f.forReaders), route.List(f.forAccounts), route.List(f.forOwners), route.List(f.forEverybody))
}
