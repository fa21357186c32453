package ftp

import (
	"errors"
	"fmt"
	"strings"
)

const maxTries = 3 // failed logins until the connection is closed

// authenticator has the commands with which a client secures its connection and logs in.
type authenticator struct {
	d      *dialogue
	server *server
	place  *place
	tree   *tree // gets the session

	name  string // from USER, not proven yet
	tries int    // failed logins
}

// auth answers AUTH. It begins TLS below goftp, which does not know of TLS.
func (a *authenticator) auth(arg string) error {
	switch strings.ToUpper(strings.TrimSpace(arg)) {
	case "TLS", "TLS-C", "SSL":
	default:
		return refuse(504, "Only AUTH TLS is known")
	}
	switch {
	case a.server.cfg.TLS == nil:
		return refuse(502, "There is no TLS on this service")
	case a.d.control.Encrypted(), a.tree.session != nil:
		return refuse(503, "AUTH comes once, before the login")
	case a.d.control.Pipelined():
		// Commands that came in clear text right behind AUTH would count as encrypted.
		a.d.control.HangUp()
		return refuse(503, "Commands sent ahead of TLS")
	}
	a.d.reply(234, "Begin TLS")
	secure, err := Handshake(a.d.ctx, a.d.control.Conn, a.server.cfg.TLS)
	if err != nil {
		a.d.log.InfoContext(a.d.ctx, "ftp: TLS handshake failed", "err", err)
		a.d.control.HangUp()
		return nil
	}
	a.d.control.StartTLS(secure)
	a.name = "" // the name came in clear text
	return nil
}

// pbsz answers PBSZ: TLS needs no buffer size.
func (a *authenticator) pbsz(string) error {
	if !a.d.control.Encrypted() {
		return refuse(503, "AUTH TLS comes first")
	}
	return a.d.reply(200, "PBSZ=0")
}

// user answers USER. It keeps the name for PASS.
func (a *authenticator) user(name string) error {
	switch {
	case a.tree.session != nil:
		return refuse(503, "You are logged in already")
	case a.server.cfg.RequireTLS && !a.d.control.Encrypted():
		return refuse(530, "Send AUTH TLS first: passwords in clear text are refused here")
	}
	if err := printable(name); err != nil {
		return err
	}
	a.name = name
	return a.d.reply(331, "User name ok, password required")
}

// pass answers PASS. It begins the session.
func (a *authenticator) pass(password string) error {
	switch {
	case a.tree.session != nil:
		return refuse(503, "You are logged in already")
	case a.name == "":
		return refuse(503, "USER comes first")
	}
	session, err := a.server.handler.Login(a.d.session, a.name, password, a.d.control.Conn.RemoteAddr())
	if err != nil {
		return a.failed(err)
	}
	if full := a.server.registry.login(a.place, a.name); full != nil {
		session.Close()
		return full
	}
	a.tree.session, a.tree.user = session, a.name
	a.d.control.LoggedIn()
	a.d.log = a.d.log.With("account", a.name)
	if r, ok := session.(Revocable); ok {
		r.Revoke(a.d.dismiss)
	}
	a.d.reply(230, "Password ok, continue")
	a.d.log.DebugContext(a.d.ctx, "ftp: logged in")
	return nil
}

// failed counts a failed login, and returns the error to answer. After maxTries it hangs up;
// failures with a code below 500 do not count.
func (a *authenticator) failed(err error) error {
	if answer, ok := errors.AsType[*Error](err); !ok || answer.Code >= 500 {
		a.tries++
	}
	if a.tries >= maxTries {
		a.d.control.HangUp()
	}
	err = fmt.Errorf("login of %s: %w", a.name, err)
	a.name = ""
	return err
}
