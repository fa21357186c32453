// Package watches serves the watches of an account:
//
//	POST   /v1/watches              begins one: watch.Wish
//	GET    /v1/watches              lists them: watch.WatchList
//	GET    /v1/watches/<id>         one, with its latest notices: watch.WatchDocument
//	DELETE /v1/watches/<id>         ends one
//	GET    /v1/watches.atom         the notices of all of them, as a feed
//	GET    /v1/watches/<id>.atom    the notices of one
//
// Links in mails lead to two more. They need no password, as the link has a token. GET shows a
// button, so that programs that look at links in mails change nothing:
//
//	GET, POST /v1/watches/<id>/confirm/<token>
//	GET, POST /v1/watches/<id>/stop/<token>
package watches

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
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/httpd/reply"
	"sheaf/serve/watch"
)

const (
	maxForm      = 64 << 10 // bytes
	noticesShown = 100
)

// Handler serves watches.
type Handler struct {
	Watches *watch.Watches
	Public  string // the service's own URL, if it is behind a proxy
	Site    *webpage.Site
}

// Register mounts the handlers.
func (h *Handler) Register(r *mux.Router, g *guard.Guard) {
	const all, one = api.PathWatches, api.PathWatches + "/{id:[a-z0-9]+}"
	handle := func(method, path string, f guard.Handler) {
		r.Handle(path, g.Named(func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
			return Problem(f(w, r, a))
		}, account.ForWatches)).Methods(method)
	}
	handle(http.MethodPost, all, h.add)
	handle(http.MethodGet, all, h.list)
	handle(http.MethodGet, all+".atom", h.atom)
	handle(http.MethodGet, one+".atom", h.atom)
	handle(http.MethodGet, one, h.get)
	handle(http.MethodDelete, one, h.remove)
	for verb, do := range map[string]func(ctx context.Context, id, token string) (*watch.Watch, error){
		"confirm": h.Watches.Confirm, "stop": h.Watches.Stop,
	} {
		path := one + "/" + verb + "/{token:[a-f0-9]+}"
		r.Handle(path, g.Public(func(w http.ResponseWriter, r *http.Request) error {
			return h.button(w, r, verb, false)
		})).Methods(http.MethodGet, http.MethodHead)
		r.Handle(path, g.Public(func(w http.ResponseWriter, r *http.Request) error {
			act := map[string]audit.Act{"confirm": audit.Change, "stop": audit.Remove}[verb]
			audit.Note(r.Context(), audit.Row{Act: act, Object: "watch " + mux.Vars(r)["id"], Reason: verb + " by a link in a mail"})
			if err := audit.Begin(r.Context()); err != nil {
				return err
			}
			if _, err := do(r.Context(), mux.Vars(r)["id"], mux.Vars(r)["token"]); err != nil {
				return Problem(err)
			}
			return h.button(w, r, verb, true)
		})).Methods(http.MethodPost)
	}
}

// Problem returns the problem to answer for an error of package watch, and other errors as they
// are.
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

func (h *Handler) add(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	var wish watch.Wish
	if err := problem.ReadJSON(w, r, &wish); err != nil {
		return err
	}
	added, err := h.Watches.Add(r.Context(), a, wish)
	if err != nil {
		return err
	}
	audit.About(r.Context(), "watch", added.ID)
	w.Header().Set("Location", api.PathWatches+"/"+added.ID)
	return problem.JSON(w, http.StatusCreated, added)
}

func (h *Handler) list(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	list, err := h.Watches.List(r.Context(), a.Name)
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, watch.WatchList{Watches: append([]*watch.Watch{}, list...)})
}

func (h *Handler) get(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	found, err := h.Watches.Get(r.Context(), a.Name, mux.Vars(r)["id"])
	if err != nil {
		return err
	}
	notices, err := h.Watches.Notices(r.Context(), a.Name, found.ID, noticesShown)
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, watch.WatchDocument{Watch: found, Notices: notices})
}

func (h *Handler) remove(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	if err := h.Watches.Remove(r.Context(), a.Name, mux.Vars(r)["id"]); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) atom(w http.ResponseWriter, r *http.Request, a *account.Account) error {
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
	return watch.WriteAtom(w, watch.FeedID(a.Name, id), reply.Origin(h.Public, r)+r.URL.Path, title, created, notices)
}

//go:embed button.html
var buttonText string

var buttonTemplate = webpage.Parse(buttonText)

// button shows the page of a link in a mail. It reads what the browser sends with its form, and
// does not look at it.
func (h *Handler) button(w http.ResponseWriter, r *http.Request, verb string, done bool) error {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxForm)); err != nil {
		return problem.New(http.StatusBadRequest, "bad_body", fmt.Sprint("the form is too long: ", err))
	}
	return webpage.Show(w, r, http.StatusOK, buttonTemplate, struct {
		webpage.Page
		Verb string
		Done bool
	}{h.Site.For(r), verb, done})
}
