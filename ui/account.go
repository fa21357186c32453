package ui

import (
	"net/http"
	"time"

	"sheaf/internal/webpage"
	"sheaf/serve/account"
)

// accountPage shows what an account may fetch and when.
type accountPage struct {
	webpage.Page
	Account *account.Account
	Until   time.Time // when its window closes; zero: not known, or never
	Opens   time.Time // when its window opens; zero: it is open
	Used    int64     // bytes of today
	Base    string
	FTP     string
}

var accountTemplate = page("account")

// account shows the reader's account. It lies at the root, so that browsers send the account to all
// pages once it was given here.
func (f *face) account(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	p := accountPage{Page: f.Site.For(r), Account: a, Base: f.base(r), FTP: f.FTP}
	now := time.Now()
	if a.Window.Open(now) {
		p.Until = a.Window.Until(now)
	} else {
		p.Opens, _ = a.Window.Next(now)
	}
	used, err := f.Library.Access.Meter.Used(r.Context())
	if err != nil {
		return err
	}
	p.Used = used[a.Name]
	return webpage.Show(w, r, http.StatusOK, accountTemplate, p)
}

// Left is what is left of today's quota.
func (p accountPage) Left() int64 { return max(0, p.Account.Quota-p.Used) }
