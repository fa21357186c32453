package ui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sheaf/internal/audit"
	"sheaf/internal/passwords"
	"sheaf/internal/route"
	"sheaf/internal/session"
	"sheaf/internal/transfers"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/watch"
)

const (
	pathAccount = "/account"
	lastShown   = 20 // downloads since yesterday
	daysShown   = 30
)

// accountPage shows what an account may fetch and when, and its downloads and tokens.
type accountPage struct {
	webpage.Page
	Account *account.Account
	Until   time.Time // when its window closes; zero: not known, or never
	Opens   time.Time // when its window opens next; zero: never, or it is always open
	Open    bool
	Used    int64 // bytes fetched today
	commands

	Running, Last []transfers.Transfer // downloads; Running only those of this process
	Days          []transfers.Period   // the newest first
	Watches       []*watch.Watch
	Tokens        []account.Token

	Owner bool   // whether the reader may change password, address and tokens
	Done  string // the change that was just made
	Wrong problemAt
	Made  account.NewToken // a new token, whose secret is shown only this time
}

// problemAt says what is wrong with the values of one of the page's forms.
type problemAt struct{ Act, Why string }

var accountTemplate = page("account")

// account shows the reader's account.
func (f *face) account(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	done := r.URL.Query().Get("done")
	return f.showAccount(w, r, a, http.StatusOK, accountPage{Done: done})
}

// showAccount fills in the parts that the page always shows, and answers with it.
func (f *face) showAccount(w http.ResponseWriter, r *http.Request, a *account.Account, status int, p accountPage) error {
	p.Page, p.Account, p.commands = f.Site.For(r), a, f.commands(r)
	p.Path = pathAccount // path of the page in the other language, even after a form
	now := time.Now()
	if p.Open = a.Window.Open(now); p.Open {
		if p.Until = a.Window.Until(now); !p.Until.IsZero() {
			p.Opens, _ = a.Window.Next(p.Until)
		}
	} else {
		p.Opens, _ = a.Window.Next(now)
	}
	used, err := f.Room.Library.Access.Meter.Used(r.Context())
	if err != nil {
		return err
	}
	p.Used = used[a.Name]
	if err := f.addDownloads(r.Context(), &p, now); err != nil {
		return err
	}
	if f.Room.Watches != nil {
		if p.Watches, err = f.Room.Watches.List(r.Context(), a.Name); err != nil {
			return err
		}
	}
	if p.Owner = f.Room.Accounts != nil && a.Token() == nil; p.Owner {
		if p.Tokens, err = f.Room.Accounts.Tokens(r.Context(), a.Name); err != nil {
			return err
		}
	}
	return webpage.Show(w, r, status, accountTemplate, p)
}

// addDownloads adds the account's running and recent downloads.
func (f *face) addDownloads(ctx context.Context, p *accountPage, now time.Time) (err error) {
	downloads := transfers.Filter{Who: p.Account.Name, Direction: transfers.Download, Since: now.AddDate(0, 0, -1), Limit: lastShown}
	p.Running = f.Running.List(downloads)
	if f.Transfers == nil {
		return nil
	}
	if p.Last, err = f.Transfers.List(ctx, downloads); err != nil {
		return err
	}
	p.Days, err = f.Transfers.Periods(ctx, transfers.PeriodFilter{
		By: transfers.Day, Since: f.Site.Local(now).AddDate(0, 0, 1-daysShown), Who: p.Account.Name, Direction: transfers.Download,
	})
	slices.Reverse(p.Days)
	return err
}

// Left returns the bytes left of today's quota.
func (p accountPage) Left() int64 { return max(0, p.Account.Quota-p.Used) }

// Uses returns the possible uses of a token, for the form.
func (accountPage) Uses() []account.Use { return account.Uses() }

// UseName names a use of tokens in the reader's language.
func (p accountPage) UseName(u account.Use) string {
	return cmp.Or(map[account.Use]string{
		account.ForFiles:   p.T("files, by HTTP and FTP"),
		account.ForQueries: p.T("queries and stored pages"),
		account.ForWatches: p.T("watches"),
	}[u], p.T("everything but password and tokens"))
}

// UseNames names the uses of a token.
func (p accountPage) UseNames(t account.Token) string {
	var names []string
	for _, u := range t.Uses {
		names = append(names, p.UseName(u))
	}
	return strings.Join(names, ", ")
}

// Speed returns the rate of a download as text.
func (p accountPage) Speed(t transfers.Transfer) string {
	if t.Took <= 0 {
		return "–"
	}
	return p.Rate(float64(t.Bytes) / t.Took.Seconds())
}

// Least reports whether a use is the form's default.
func (accountPage) Least(u account.Use) bool { return u == account.ForFiles }

// DaysShown returns the number of days for which the page sums up downloads.
func (accountPage) DaysShown() int { return daysShown }

// Aborted reports whether a download ended before the end of its file.
func (accountPage) Aborted(t transfers.Transfer) bool { return t.Outcome == transfers.Aborted }

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
