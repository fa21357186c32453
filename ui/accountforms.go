package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sheaf/internal/audit"
	"sheaf/internal/passwords"
	"sheaf/internal/route"
	"sheaf/internal/session"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
)

// changeAccount makes the changes that an account's owner may make: password, mail address, tokens.
func (f *face) changeAccount(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	in, err := route.Form[accountForm](w, r)
	if err != nil {
		return err
	}
	p := accountPage{Wrong: problemAt{Act: in.Act}}
	audit.Note(r.Context(), audit.Row{
		Act:    map[string]audit.Act{"password": audit.Change, "email": audit.Change, "revoke": audit.Remove}[p.Wrong.Act],
		Object: p.Wrong.Act + " of account " + a.Name,
	})
	switch p.Wrong.Act {
	case "password":
		err = f.changePassword(w, r, a, in)
	case "email":
		err = f.changeEmail(r, a, in)
	case "token":
		if p.Made, err = f.makeToken(r, a, in); err == nil {
			w.Header().Set("Cache-Control", "no-store")
			return f.showAccount(w, r, a, http.StatusOK, p)
		}
	case "revoke":
		err = f.Room.Accounts.RevokeToken(r.Context(), a.Name, in.Token)
		if errors.Is(err, account.ErrNoToken) { // the token is gone already
			err = nil
		}
	}
	status := http.StatusUnprocessableEntity
	var tooMany *passwords.TooMany
	switch {
	case err == nil:
		return webpage.SeeOther(w, pathAccount+"?"+url.Values{"done": {p.Wrong.Act}}.Encode())
	case errors.Is(err, account.ErrCredentials):
		p.Wrong.Why = f.Site.For(r).T("The old password is wrong.")
	case errors.As(err, &tooMany):
		p.Wrong.Why, status = tooMany.Error(), http.StatusTooManyRequests
	case errors.Is(err, account.ErrInvalid), errors.Is(err, account.ErrManyTokens):
		p.Wrong.Why = strings.TrimPrefix(err.Error(), account.ErrInvalid.Error()+": ")
	default:
		return err
	}
	return f.showAccount(w, r, a, status, p)
}

// changePassword sets another password. The session of the request goes on; all other sessions end.
func (f *face) changePassword(w http.ResponseWriter, r *http.Request, a *account.Account, in accountForm) error {
	mark, err := f.Room.Accounts.ChangePassword(r.Context(), a.Name, in.Old, in.New, r.RemoteAddr)
	if err != nil || !f.Guard.Sessions.Given(r) {
		return err
	}
	return f.Guard.Sessions.Begin(w, r, session.Who{Kind: session.Account, Name: a.Name, Mark: mark})
}

// changeEmail sets another mail address. It asks for the password, because whoever reads mails at
// the address can set a new password.
func (f *face) changeEmail(r *http.Request, a *account.Account, in accountForm) error {
	if _, _, err := f.Room.Accounts.Enter(r.Context(), a.Name, in.Old, r.RemoteAddr); err != nil {
		return err
	}
	email := strings.TrimSpace(in.Email)
	_, err := f.Room.Accounts.Change(r.Context(), a.Name, account.Change{Email: &email})
	return err
}

// makeToken makes the token that the form describes.
func (f *face) makeToken(r *http.Request, a *account.Account, in accountForm) (account.NewToken, error) {
	t := account.Token{Name: strings.TrimSpace(in.Name), Uses: in.Use}
	if in.Days > 0 {
		t.Expires = time.Now().AddDate(0, 0, in.Days)
	}
	made, secret, err := f.Room.Accounts.CreateToken(r.Context(), a.Name, t)
	return account.NewToken{Token: made, Secret: secret}, err
}
