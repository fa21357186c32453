// Package login has the pages on which people log in with a browser, as an account or as an
// operator, and log out. The pages need no script.
//
//	GET, POST /login    asks for name and password, and then leads to ?next=
//	POST      /logout   ends the session
//	GET       /login/oidc            leads to the OpenID provider, and back to /login/oidc/callback
//	GET, POST /login/reset           mails a link for a forgotten password
//	GET, POST /login/reset/<secret>  sets another password
package login

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/passwords"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/session"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/httpd"
	"sheaf/serve/httpd/guard"
)

// Options of the pages. Site, Guard, Sessions and Operator are required.
type Options struct {
	Site     *webpage.Site
	Guard    *guard.Guard
	Sessions *session.Sessions
	Accounts *account.Accounts // nil: only operators log in here
	Resets   *httpd.Resets     // for forgotten passwords; required with Accounts

	// Operator checks the name and password of an operator and returns the mark of the session. It
	// fails as operators.Door.Login does. Board is the path below which operators work.
	Operator func(ctx context.Context, name, password, remote string) (o operators.Operator, mark string, err error)
	Board    string

	OIDC      *OIDC            // nil: no log-in with an OpenID provider
	Operators *operators.Store // has the operators that log in there; required with OIDC
	Log       *slog.Logger     // default: none
}

// pages has the pages' handlers.
type pages struct{ Options }

// Queries and forms of the pages.
type (
	nextQuery struct {
		Next string `query:"next" doc:"a path of this service to which the log-in leads"`
	}
	callbackQuery struct {
		State string `query:"state"`
		Code  string `query:"code"`
		Error string `query:"error"`
	}
	loginForm struct {
		Name     string `form:"name"`
		Password string `form:"password"`
		Next     string `form:"next"`
	}
	resetForm struct {
		Name string `form:"name"`
	}
	passwordForm struct {
		New string `form:"new"`
	}
)

const (
	oneReset = session.PathReset + "/{secret:[a-z0-9]+}"
	html     = "text/html"
	loggedIn = "Logged in, with a cookie; to the page that was asked for"
	goneLink = "The page says that the link is good no more"
)

var operations = []*route.Route{
	webpage.Get[nextQuery](session.PathLogin, route.Anybody, "The page by which accounts and operators log in with a browser").Route,
	webpage.Form[loginForm](session.PathLogin, route.Anybody, audit.None, "Begin a session", loggedIn).Also(http.StatusForbidden, html, "The page again: name or password is wrong, or the account is suspended").Also(http.StatusTooManyRequests, html, "The page again: too many wrong passwords").Route,
	webpage.Lead[nextQuery](pathOIDC, route.Anybody, http.StatusSeeOther, "Leads to the OpenID provider, where the settings name one", "To the provider").Route,
	webpage.Lead[callbackQuery](pathCallback, route.Anybody, http.StatusSeeOther, "Takes the OpenID provider's answer", loggedIn).Also(http.StatusForbidden, html, "The log-in page: the provider has refused, or there is no account").Route,
	webpage.Get[route.None](session.PathReset, route.Anybody, "Asks whose password is forgotten").Route,
	webpage.Form[resetForm](session.PathReset, route.Anybody, audit.None, "Send a mail by which the password is set anew; the answer is the same for names that nobody has", "").Answering(http.StatusOK, "A page").Sends(html).Route,
	webpage.Get[route.None](oneReset, route.Anybody, "Asks for the new password").Also(http.StatusGone, html, goneLink).Route,
	webpage.Form[passwordForm](oneReset, route.Anybody, audit.None, "Set the new password", "Set; to the log-in page").Also(http.StatusGone, html, goneLink).Also(http.StatusUnprocessableEntity, html, "The page says what is wrong").Route,
	webpage.Form[route.None](session.PathLogout, route.Anybody, audit.None, "End the session", "Logged out; to the front page").Route,
}

// Routes returns the operations, for the API description.
func Routes() []*route.Route { return operations }

// Register mounts the pages. It returns an error if a required option is missing.
func Register(r *mux.Router, opt Options) error {
	if opt.Site == nil || opt.Guard == nil || opt.Sessions == nil || opt.Operator == nil {
		return errors.New("login: options lack a site, a guard, sessions or a check of operators")
	}
	if opt.Accounts != nil && opt.Resets == nil {
		return errors.New("login: options have accounts, and nothing that sets their passwords anew")
	}
	if opt.OIDC != nil && opt.Operators == nil {
		return errors.New("login: options have an OpenID provider, and nothing that keeps its operators")
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	p := &pages{opt}
	for path, h := range map[string]func(http.ResponseWriter, *http.Request) error{pathOIDC: p.startOIDC, pathCallback: p.finishOIDC} {
		act := audit.None
		if path == pathCallback && p.OIDC != nil {
			act = audit.Login
		}
		r.Handle(path, opt.Guard.Audit.Handler(act, opt.Guard.Public(func(w http.ResponseWriter, r *http.Request) error {
			if p.OIDC == nil {
				return problem.New(http.StatusNotFound, "no_provider", "no OpenID provider is set here; log in with a password at "+session.PathLogin)
			}
			return h(w, r)
		}))).Methods(http.MethodGet)
	}
	r.Handle(session.PathLogin, problem.Within(opt.Guard.Public(p.ask))).Methods(http.MethodGet, http.MethodHead)
	r.Handle(session.PathLogin, problem.Within(opt.Guard.Public(p.login))).Methods(http.MethodPost)
	if p.Accounts != nil {
		r.Handle(session.PathReset, problem.Within(opt.Guard.Public(p.askReset))).Methods(http.MethodGet, http.MethodHead)
		r.Handle(session.PathReset, problem.Within(opt.Guard.Public(p.beginReset))).Methods(http.MethodPost)
		r.Handle(oneReset, problem.Within(opt.Guard.Public(p.askPassword))).Methods(http.MethodGet, http.MethodHead)
		r.Handle(oneReset, problem.Within(opt.Guard.Public(p.setPassword))).Methods(http.MethodPost)
	}
	r.Handle(session.PathLogout, problem.Within(opt.Guard.Public(p.logout))).Methods(http.MethodPost)
	return nil
}

//go:embed *.html
var texts embed.FS

// loginPage asks for a name and a password.
type loginPage struct {
	webpage.Page
	Name, Next             string
	Wrong                  bool          // the last name or password was wrong
	Suspended              bool          // the account is suspended
	Refused                bool          // the OpenID provider, or the person there, has refused the log-in
	Unknown                bool          // the OpenID provider knows the person, but nobody here matches
	Wait                   time.Duration // time before the next try
	Provider, ProviderPath string        // name and path of the log-in with the OpenID provider; empty: there is none

	Forgotten bool // accounts can log in here and set a new password
}

var loginTemplate = webpage.ParseFiles(texts, "login.html")

func (p *pages) ask(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	return p.show(w, r, http.StatusOK, loginPage{Next: webpage.LocalPath(r.URL.Query().Get("next"))})
}

func (p *pages) show(w http.ResponseWriter, r *http.Request, status int, data loginPage) error {
	data.Page, data.Forgotten = p.Site.For(r), p.Accounts != nil
	if p.OIDC != nil {
		data.Provider, data.ProviderPath = p.OIDC.Name(), pathOIDC+"?"+url.Values{"next": {data.Next}}.Encode()
	}
	return webpage.Show(w, r, status, loginTemplate, data)
}

func (p *pages) login(w http.ResponseWriter, r *http.Request) error {
	in, err := route.Form[loginForm](w, r)
	if err != nil {
		return err
	}
	page := loginPage{Name: strings.TrimSpace(in.Name), Next: webpage.LocalPath(in.Next)}
	audit.Note(r.Context(), audit.Row{Kind: audit.Visitor, Name: page.Name, Act: audit.Login, Object: "session"})
	who, err := p.who(r, page.Name, in.Password, page.Next)
	if err != nil {
		audit.Note(r.Context(), audit.Row{Reason: err.Error()})
	}
	var tooMany *passwords.TooMany
	switch {
	case errors.As(err, &tooMany):
		page.Wait = tooMany.Wait + time.Second
		w.Header().Set("Retry-After", time.Now().Add(page.Wait).UTC().Format(http.TimeFormat))
		return p.show(w, r, http.StatusTooManyRequests, page)
	case errors.Is(err, account.ErrSuspended):
		page.Suspended = true
		return p.show(w, r, http.StatusForbidden, page)
	case errors.Is(err, account.ErrCredentials):
		page.Wrong = true
		return p.show(w, r, http.StatusForbidden, page)
	case err != nil:
		return err
	}
	return p.begin(w, r, page.Next, who)
}

// begin begins a session for somebody, who may be both an operator and an account, and leads to
// next. If both are given, the operator comes first and is named in the audit log.
func (p *pages) begin(w http.ResponseWriter, r *http.Request, next string, all ...session.Who) error {
	if next == "/" {
		next = map[session.Kind]string{session.Account: "/account", session.Operator: p.Board}[all[0].Kind]
	}
	object := "session"
	if len(all) > 1 {
		object += fmt.Sprintf(" of %s %s and %s %s", all[0].Kind, all[0].Name, all[1].Kind, all[1].Name)
	}
	audit.Note(r.Context(), audit.Row{Kind: audit.Kind(all[0].Kind), Name: all[0].Name, Object: object})
	if err := audit.Begin(r.Context()); err != nil {
		return err
	}
	if err := p.Sessions.Begin(w, r, all...); err != nil {
		return err
	}
	return webpage.SeeOther(w, next)
}

// who returns the operator or account with a name and password. If both exist, next decides: for a
// page of the board the operator is tried first. It fails with account.ErrCredentials or
// account.ErrSuspended.
func (p *pages) who(r *http.Request, name, password, next string) (session.Who, error) {
	if name == account.Anonymous {
		return session.Who{}, account.ErrCredentials
	}
	order := []func(*http.Request, string, string) (session.Who, error){p.account, p.operator}
	if strings.HasPrefix(next, p.Board) || p.Accounts == nil {
		order[0], order[1] = order[1], order[0]
	}
	who, err := order[0](r, name, password)
	if errors.Is(err, account.ErrCredentials) {
		return order[1](r, name, password)
	}
	return who, err
}

func (p *pages) account(r *http.Request, name, password string) (session.Who, error) {
	if p.Accounts == nil {
		return session.Who{}, account.ErrCredentials
	}
	a, mark, err := p.Accounts.Enter(r.Context(), name, password, r.RemoteAddr)
	if err != nil {
		return session.Who{}, err
	}
	return session.Who{Kind: session.Account, Name: a.Name, Mark: mark}, nil
}

func (p *pages) operator(r *http.Request, name, password string) (session.Who, error) {
	o, mark, err := p.Operator(r.Context(), name, password, r.RemoteAddr)
	switch {
	case errors.Is(err, operators.ErrCredentials):
		err = account.ErrCredentials
	case errors.Is(err, operators.ErrSuspended):
		err = account.ErrSuspended
	}
	return session.Who{Kind: session.Operator, Name: o.Name, Mark: mark}, err
}

func (p *pages) logout(w http.ResponseWriter, r *http.Request) error {
	audit.Note(r.Context(), audit.Row{Act: audit.Logout, Object: "session"})
	for _, kind := range []session.Kind{session.Account, session.Operator} {
		if who, ok, err := p.Sessions.Who(r, kind); err == nil && ok {
			audit.Note(r.Context(), audit.Row{Kind: audit.Kind(kind), Name: who.Name})
		}
	}
	if p.Sessions.Given(r) {
		if err := audit.Begin(r.Context()); err != nil {
			return err
		}
	}
	if err := p.Sessions.End(w, r); err != nil {
		return err
	}
	return webpage.SeeOther(w, "/")
}
