package httpd

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/watch"
)

const (
	maxForm      = 64 << 10 // bytes
	noticesShown = 100
)

// WatchesHandler serves accounts' watches, and the links in their mails.
type WatchesHandler struct {
	Watches *watch.Watches
	Public  string // the service's own URL, if it is behind a proxy
	Site    *webpage.Site
}

const (
	all      = api.PathWatches
	one      = api.PathWatches + "/{id:[a-z0-9]+}"
	byMail   = "/{token:[a-f0-9]+}"
	atomType = "application/atom+xml"
	htmlType = "text/html"
)

// Operations on watches. Operations behind links in mails need no account: whoever reads the mail
// may use them.
var (
	ListWatches = route.New[route.None, watch.WatchList]("GET", all, route.Account, audit.None, "What the account watches, oldest first").Under("changes")
	BeginWatch  = route.New[watch.Wish, *watch.Watch]("POST", all, route.Account, audit.None, "Watch a page, a host or a form").Under("changes").Answering(http.StatusCreated, "")
	ShowWatch   = route.New[string, watch.WatchDocument]("GET", one, route.Account, audit.None, "One watch, with what it has found").Under("changes")
	EndWatch    = route.New[string, route.None]("DELETE", one, route.Account, audit.None, "End it").Under("changes")
	feed        = route.New[route.None, route.None]("GET", all+".atom", route.Account, audit.None, "What all of them have found, as a feed").Under("changes").Answering(http.StatusOK, "").Sends(atomType)
	feedOf      = route.New[string, route.None]("GET", one+".atom", route.Account, audit.None, "What one has found, as a feed").Under("changes").Answering(http.StatusOK, "").Sends(atomType)

	askConfirm = button("GET", "/confirm", "Confirm the address that mails go to: a page with a button")
	confirm    = button("POST", "/confirm", "Confirm the address that mails go to")
	askStop    = button("GET", "/stop", "End a watch from a mail: a page with a button")
	stop       = button("POST", "/stop", "End a watch from a mail")
)

// button defines an operation at a link in a mail.
func button(method, verb, summary string) route.Op[route.None, route.None] {
	return route.New[route.None, route.None](method, one+verb+byMail, route.Anybody, audit.None, summary).Under("changes").Answering(http.StatusOK, "A page that says so").Sends(htmlType)
}

// Register mounts the operations. Those behind links in mails need no account.
func (h *WatchesHandler) Register(r *mux.Router, g *guard.Guard) {
	h.register(g.Consumers(r, func(next guard.Handler) http.Handler { return g.Named(next, account.ForWatches) }, Problem), g.Everybody(r))
}

func (h *WatchesHandler) register(accounts, everybody route.Mount) {
	BeginWatch.On(accounts, h.add)
	ListWatches.On(accounts, h.list)
	feed.Raw(accounts, guard.Raw(h.atom))
	feedOf.Raw(accounts, guard.Raw(h.atom))
	ShowWatch.On(accounts, h.get)
	EndWatch.On(accounts, route.Done(h.remove))
	askConfirm.Raw(everybody, h.ask("confirm"))
	askStop.Raw(everybody, h.ask("stop"))
	confirm.Raw(everybody, h.press("confirm", audit.Change, h.Watches.Confirm))
	stop.Raw(everybody, h.press("stop", audit.Remove, h.Watches.Stop))
}

// ask returns a handler that shows the page of a link in a mail.
func (h *WatchesHandler) ask(verb string) route.Handler {
	return func(w http.ResponseWriter, r *http.Request) error { return h.button(w, r, verb, false) }
}

// press returns a handler that calls do when the button on the page of ask is pressed.
func (h *WatchesHandler) press(verb string, act audit.Act, do func(ctx context.Context, id, token string) (*watch.Watch, error)) route.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		audit.Note(r.Context(), audit.Row{Act: act, Object: "watch " + mux.Vars(r)["id"], Reason: verb + " by a link in a mail"})
		if err := audit.Begin(r.Context()); err != nil {
			return err
		}
		if _, err := do(r.Context(), mux.Vars(r)["id"], mux.Vars(r)["token"]); err != nil {
			return Problem(err)
		}
		return h.button(w, r, verb, true)
	}
}

// Problem turns an error of package watch into the problem to answer. It returns other errors as
// they are.
func Problem(err error) error {
	switch {
	case errors.Is(err, watch.ErrWish):
		return problem.New(http.StatusBadRequest, "wish", err.Error())
	case errors.Is(err, watch.ErrScope):
		return problem.New(http.StatusForbidden, "scope", err.Error())
	case errors.Is(err, watch.ErrMany):
		return problem.New(http.StatusForbidden, "too_many_watches", err.Error()+"; end some")
	case errors.Is(err, watch.ErrNoMail):
		return problem.New(http.StatusBadRequest, "no_mail", err.Error()+"; give a webhook, or read the feed "+api.PathWatches+".atom")
	case errors.Is(err, watch.ErrNoWatch):
		return problem.New(http.StatusNotFound, "not_found", "there is no such watch, or the link is too old")
	}
	return err
}

func (h *WatchesHandler) add(ctx context.Context, wish watch.Wish) (*watch.Watch, error) {
	added, err := h.Watches.Add(ctx, guard.Account(ctx), wish)
	if err == nil {
		audit.About(ctx, "watch", added.ID)
		route.Header(ctx).Set("Location", api.PathWatches+"/"+added.ID)
	}
	return added, err
}

func (h *WatchesHandler) list(ctx context.Context, _ route.None) (watch.WatchList, error) {
	list, err := h.Watches.List(ctx, guard.Account(ctx).Name)
	return watch.WatchList{Watches: append([]*watch.Watch{}, list...)}, err
}

func (h *WatchesHandler) get(ctx context.Context, id string) (watch.WatchDocument, error) {
	name := guard.Account(ctx).Name
	found, err := h.Watches.Get(ctx, name, id)
	if err != nil {
		return watch.WatchDocument{}, err
	}
	notices, err := h.Watches.Notices(ctx, name, found.ID, noticesShown)
	return watch.WatchDocument{Watch: found, Notices: notices}, err
}

func (h *WatchesHandler) remove(ctx context.Context, id string) error {
	return h.Watches.Remove(ctx, guard.Account(ctx).Name, id)
}

func (h *WatchesHandler) atom(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	id, title, created := mux.Vars(r)["id"], "Changes of what "+a.Name+" watches", a.Created
	if id != "" {
		found, err := h.Watches.Get(r.Context(), a.Name, id)
		if err != nil {
			return err
		}
		title, created = "Changes of "+found.Title(), found.Created
	}
	notices, err := h.Watches.Notices(r.Context(), a.Name, id, noticesShown)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/atom+xml; charset=utf-8")
	return watch.WriteAtom(w, watch.FeedID(a.Name, id), guard.Origin(h.Public, r)+r.URL.Path, title, created, notices)
}

//go:embed button.html
var buttonText string

var buttonTemplate = webpage.Parse(buttonText)

// button shows the page of a link in a mail. It reads the form that the browser sends, and ignores
// it.
func (h *WatchesHandler) button(w http.ResponseWriter, r *http.Request, verb string, done bool) error {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxForm)); err != nil {
		return problem.New(http.StatusBadRequest, "bad_body", fmt.Sprint("the form is too long: ", err))
	}
	return webpage.Show(w, r, http.StatusOK, buttonTemplate, struct {
		webpage.Page
		Verb string
		Done bool
	}{h.Site.For(r), verb, done})
}
