package httpd

import (
	"context"
	"database/sql"
	"net/http"

	"sheaf/internal/audit"
	"sheaf/internal/mailer"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/session"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
)

// Resets mails links by which accounts' owners choose new passwords. All fields but Mails are
// needed.
type Resets struct {
	Site     *webpage.Site
	Accounts *account.Accounts
	Mails    *mailer.Outbox // nil: none are sent
	Base     string         // the service's URL in mails, without a slash at the end
}

// SendReset is the operation by which operators mail an account's owner a link for a new password.
var SendReset = route.New[string, route.None](http.MethodPost, oneAccount+"/reset", operators.Worker, audit.Change, "Mail the owner of an account a link by which the password is set anew").
	Answering(http.StatusNoContent, "The mail is under way").Also(http.StatusConflict, route.Problem, "The account has no mail address, is suspended or was sent a link just now, or the service sends no mails")

// Sends reports whether this service sends mails. x may be nil.
func (x *Resets) Sends() bool { return x != nil && x.Mails != nil && x.Mails.Sends() }

// SendReset mails the owner of an account a link for a new password, or fails with a problem that
// says why it cannot.
func (h *AccountsHandler) SendReset(ctx context.Context, name string) error {
	x := h.Resets
	audit.Note(ctx, audit.Row{Object: "account " + name, Reason: "sent a link by mail to set the password anew"})
	a, err := h.Accounts.Account(ctx, name)
	if err != nil {
		return err
	}
	no := func(reason, why string) error { return problem.New(http.StatusConflict, reason, why) }
	switch {
	case !x.Sends():
		return no("no_mails", "this service sends no mails; watch.mail.server names the server for them")
	case a.Email == "":
		return no("no_address", "account "+name+" has no mail address")
	case a.Suspended:
		return no("suspended", "account "+name+" is suspended")
	}
	sent, err := x.Mail(ctx, x.Site.For(route.Request(ctx)), name)
	if err == nil && !sent {
		err = no("sent_before", "account "+name+" was sent a link a few minutes ago")
	}
	return err
}

// Mail mails an account's owner a link for a new password, in the language of a page. sent is false
// if the account cannot be sent a link now.
func (x *Resets) Mail(ctx context.Context, page webpage.Page, name string) (sent bool, err error) {
	err = x.Accounts.BeginReset(ctx, name, func(ctx context.Context, tx *sql.Tx, to, secret string) error {
		sent = true
		return x.Mails.Add(ctx, tx, mailer.Letter{
			To: to, Subject: page.T("Your password at %s", page.SiteName()),
			Text: page.T("Somebody, most likely you, wants to set the password of the account %s anew. Open this link within an hour:", name) +
				"\n\n  " + x.Base + session.PathReset + "/" + secret + "\n\n" + page.T("If you do not want that, do nothing: the password stays as it is.") + "\n",
		})
	})
	if err == nil {
		x.Mails.Hurry()
	}
	return sent, err
}
