package login

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/passwords"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
)

// resetPage asks for the account whose password is forgotten, or for its new password.
type resetPage struct {
	webpage.Page
	Sends   bool   // this service sends mails
	Sent    bool   // a mail was sent, if the account exists
	Account string // account whose password is set; empty: not known yet
	Wrong   string // why the new password was refused
	Expired bool   // the link is not valid any more
}

var resetTemplate = webpage.ParseFiles(texts, "reset.html")

func (p *pages) showReset(w http.ResponseWriter, r *http.Request, status int, data resetPage) error {
	data.Page, data.Sends = p.Site.For(r), p.Resets.Sends()
	return webpage.Show(w, r, status, resetTemplate, data)
}

// askReset asks for the account whose password is forgotten.
func (p *pages) askReset(w http.ResponseWriter, r *http.Request) error {
	return p.showReset(w, r, http.StatusOK, resetPage{})
}

// beginReset mails a link for setting a new password. The answer is the same for names that do not
// exist.
func (p *pages) beginReset(w http.ResponseWriter, r *http.Request) error {
	in, err := route.Form[resetForm](w, r)
	if err != nil {
		return err
	}
	name := strings.TrimSpace(in.Name)
	audit.Note(r.Context(), audit.Row{Act: audit.Change, Object: "password of account " + name, Reason: "asked for a link by mail"})
	if !p.Resets.Sends() {
		return p.showReset(w, r, http.StatusOK, resetPage{})
	}
	// Each request counts as a wrong guess, so that nobody can fill mailboxes or search for names
	// from one address.
	if _, err := p.Accounts.Guesses.Check(r.Context(), passwords.Try{Realm: passwords.Reset, Name: name, Remote: r.RemoteAddr}, func(context.Context) (bool, error) { return false, nil }); err != nil {
		return err
	}
	if err := audit.Begin(r.Context()); err != nil {
		return err
	}
	if _, err := p.Resets.Mail(r.Context(), p.Site.For(r), name); err != nil {
		return err
	}
	return p.showReset(w, r, http.StatusOK, resetPage{Sent: true})
}

// askPassword asks for the new password.
func (p *pages) askPassword(w http.ResponseWriter, r *http.Request) error {
	name, err := p.Accounts.Resettable(r.Context(), mux.Vars(r)["secret"])
	if errors.Is(err, account.ErrNoReset) {
		return p.showReset(w, r, http.StatusGone, resetPage{Expired: true})
	}
	if err != nil {
		return err
	}
	return p.showReset(w, r, http.StatusOK, resetPage{Account: name})
}

// setPassword sets the new password. All sessions of the account end; its owner logs in with the
// new password.
func (p *pages) setPassword(w http.ResponseWriter, r *http.Request) error {
	in, err := route.Form[passwordForm](w, r)
	if err != nil {
		return err
	}
	secret := mux.Vars(r)["secret"]
	if name, err := p.Accounts.Resettable(r.Context(), secret); err == nil {
		audit.Note(r.Context(), audit.Row{Kind: audit.Account, Name: name, Act: audit.Change, Object: "password of account " + name, Reason: "by a link in a mail"})
		if err := audit.Begin(r.Context()); err != nil {
			return err
		}
	}
	_, err = p.Accounts.Reset(r.Context(), secret, in.New)
	switch {
	case errors.Is(err, account.ErrNoReset):
		return p.showReset(w, r, http.StatusGone, resetPage{Expired: true})
	case errors.Is(err, account.ErrInvalid):
		name, e := p.Accounts.Resettable(r.Context(), secret)
		if e != nil {
			return e
		}
		return p.showReset(w, r, http.StatusUnprocessableEntity, resetPage{Account: name, Wrong: strings.TrimPrefix(err.Error(), account.ErrInvalid.Error()+": ")})
	case err != nil:
		return err
	}
	return webpage.SeeOther(w, "/login?next=/account")
}
