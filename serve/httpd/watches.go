package httpd

import (
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/internal/problem"
	"sheaf/serve/account"
	"sheaf/serve/watch"
)

// The watches of an account:
//
//	POST   /v1/watches                       begins one: watch.Wish
//	GET    /v1/watches                       WatchList
//	GET    /v1/watches/<id>                  one, with what it has found
//	DELETE /v1/watches/<id>                  ends it
//	GET    /v1/watches.atom                  what all of them have found, as a feed
//	GET    /v1/watches/<id>.atom             what one has found
//
// Two are for whoever reads a mail, and need no password but the token in the
// link. GET shows a button, so that programs that look at links in mails change nothing:
//
//	GET, POST /v1/watches/<id>/confirm/<token>
//	GET, POST /v1/watches/<id>/stop/<token>
const pathWatches = "/v1/watches"

// WatchList is the answer of GET /v1/watches, oldest first.
type WatchList struct {
	Watches []*watch.Watch `json:"watches"`
}

// WatchDocument is the answer of GET /v1/watches/<id>.
type WatchDocument struct {
	*watch.Watch
	Notices []*watch.Notice `json:"notices"` // the latest, newest first
}

const (
	maxWish      = 64 << 10 // bytes
	noticesShown = 100
)

func (s *server) registerWatches(r *mux.Router) {
	handle := func(method, path string, h func(http.ResponseWriter, *http.Request, *account.Account) error) {
		r.Handle(path, s.authenticated(named(h))).Methods(method)
	}
	handle(http.MethodPost, pathWatches, s.watchAdd)
	handle(http.MethodGet, pathWatches, s.watchList)
	handle(http.MethodGet, pathWatches+".atom", s.watchAtom)
	handle(http.MethodGet, pathWatches+"/{id:[a-z0-9]+}.atom", s.watchAtom)
	handle(http.MethodGet, pathWatches+"/{id:[a-z0-9]+}", s.watchGet)
	handle(http.MethodDelete, pathWatches+"/{id:[a-z0-9]+}", s.watchRemove)
	for verb, do := range map[string]func(*http.Request, string, string) (*watch.Watch, error){
		"confirm": func(r *http.Request, id, token string) (*watch.Watch, error) {
			return s.Watches.Confirm(r.Context(), id, token)
		},
		"stop": func(r *http.Request, id, token string) (*watch.Watch, error) {
			return s.Watches.Stop(r.Context(), id, token)
		},
	} {
		path := pathWatches + "/{id:[a-z0-9]+}/" + verb + "/{token:[a-f0-9]+}"
		r.Handle(path, problem.Handler(s.Log, func(w http.ResponseWriter, r *http.Request) error {
			return s.button(w, r, buttonPage{Verb: verb})
		})).Methods(http.MethodGet, http.MethodHead)
		r.Handle(path, problem.Handler(s.Log, func(w http.ResponseWriter, r *http.Request) error {
			if _, err := do(r, mux.Vars(r)["id"], mux.Vars(r)["token"]); err != nil {
				return watchProblem(err)
			}
			return s.button(w, r, buttonPage{Verb: verb, Done: true})
		})).Methods(http.MethodPost)
	}
}

// named keeps those out who gave no name: watches are somebody's.
func named(next func(http.ResponseWriter, *http.Request, *account.Account) error) func(http.ResponseWriter, *http.Request, *account.Account) error {
	return func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
		if a.Name == account.Anonymous {
			return account.ErrCredentials
		}
		return next(w, r, a)
	}
}

func (s *server) watchAdd(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	var wish watch.Wish
	var refused *problem.Error
	if err := readJSON(w, r, maxWish, &wish); errors.As(err, &refused) {
		return refused
	} else if err != nil {
		return problem.New(http.StatusBadRequest, "bad_body", "the body is no wish such as {\"url\": \"http://www.example.jp/\", \"email\": \"me@example.jp\"}: "+err.Error())
	}
	added, err := s.Watches.Add(r.Context(), a, wish)
	if err != nil {
		return watchProblem(err)
	}
	w.Header().Set("Location", pathWatches+"/"+added.ID)
	return answerJSON(w, http.StatusCreated, added)
}

func watchProblem(err error) error {
	switch {
	case errors.Is(err, watch.ErrWish):
		return problem.New(http.StatusBadRequest, "wish", err.Error())
	case errors.Is(err, watch.ErrScope):
		return problem.New(http.StatusForbidden, "scope", err.Error())
	case errors.Is(err, watch.ErrMany):
		return problem.New(http.StatusForbidden, "too_many_watches", err.Error()+"; end some")
	case errors.Is(err, watch.ErrNoMail):
		return problem.New(http.StatusBadRequest, "no_mail", err.Error()+"; give a webhook, or read the feed "+pathWatches+".atom")
	case errors.Is(err, watch.ErrNoWatch):
		return problem.New(http.StatusNotFound, "not_found", "there is no such watch, or the link is too old")
	}
	return err
}

func (s *server) watchList(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	list, err := s.Watches.List(r.Context(), a.Name)
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, WatchList{append([]*watch.Watch{}, list...)})
}

func (s *server) watchGet(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	found, err := s.Watches.Get(r.Context(), a.Name, mux.Vars(r)["id"])
	if err != nil {
		return watchProblem(err)
	}
	notices, err := s.Watches.Notices(r.Context(), a.Name, found.ID, noticesShown)
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, WatchDocument{found, notices})
}

func (s *server) watchRemove(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	if err := s.Watches.Remove(r.Context(), a.Name, mux.Vars(r)["id"]); err != nil {
		return watchProblem(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) watchAtom(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	id, title, created := mux.Vars(r)["id"], "Changes of what "+a.Name+" watches", a.Created
	if id != "" {
		found, err := s.Watches.Get(r.Context(), a.Name, id)
		if err != nil {
			return watchProblem(err)
		}
		title, created = "Changes of "+found.Title(), found.Created
	}
	notices, err := s.Watches.Notices(r.Context(), a.Name, id, noticesShown)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/atom+xml; charset=utf-8")
	w.Header().Set("Cache-Control", "private, no-cache")
	return watch.WriteAtom(w, watch.FeedID(a.Name, id), s.origin(r)+r.URL.Path, title, created, notices)
}

// buttonPage is what a link in a mail leads to.
type buttonPage struct {
	screen
	Verb string
	Done bool
}

func (p buttonPage) Question() string {
	return p.choose(map[string]string{
		"confirm en": "Do you want mails about this watch?", "confirm ja": "この通知をメールで受け取りますか。",
		"stop en": "Do you want no more mails about this watch?", "stop ja": "この通知のメールを止めますか。",
	})
}

func (p buttonPage) Yes() string {
	return p.choose(map[string]string{"confirm en": "Yes, send them", "confirm ja": "受け取る", "stop en": "Yes, stop them", "stop ja": "止める"})
}

func (p buttonPage) Outcome() string {
	return p.choose(map[string]string{
		"confirm en": "Mails will come.", "confirm ja": "メールをお送りします。",
		"stop en": "No more mails will come.", "stop ja": "メールを止めました。",
	})
}

func (p buttonPage) choose(texts map[string]string) string { return texts[p.Verb+" "+p.Lang] }

var buttonTemplate = template.Must(template.New("button").Parse(`<!DOCTYPE html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Sheaf</title>
<style>body{font:1.1em/1.6 sans-serif;max-width:34em;margin:4em auto;padding:0 1em}button{font:inherit;padding:.4em 1.2em}</style></head>
<body>{{if .Done}}<p>{{.Outcome}}</p>{{else}}<p>{{.Question}}</p><form method="post"><button>{{.Yes}}</button></form>{{end}}</body></html>
`))

// button shows the page. What a browser sends with its form is read and not looked at.
func (s *server) button(w http.ResponseWriter, r *http.Request, page buttonPage) error {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxWish)); err != nil {
		return problem.New(http.StatusBadRequest, "bad_body", fmt.Sprint("the form is too long: ", err))
	}
	page.screen = s.screen(r, "")
	return s.show(w, r, http.StatusOK, buttonTemplate, page)
}
