package ftp

import (
	"errors"
	"time"

	goftp "goftp.io/server/v2"
)

const maxTries = 3 // failed logins until the connection is closed

// setUser answers USER.
func (c *conn) setUser(arg string) {
	switch {
	case c.session != nil:
		c.reply(503, "You are logged in already")
		return
	case c.engine.RequireTLS && c.tls == nil:
		c.reply(530, "Send AUTH TLS first: passwords in clear text are refused here")
		return
	case printable(arg) != arg:
		c.reply(501, "Names have no control characters here")
		return
	}
	c.user = arg
	goftp.DefaultCommands()["USER"].Execute(c.goftp, arg)
}

// pass answers PASS.
func (c *conn) pass(password string) {
	switch {
	case c.session != nil:
		c.reply(503, "You are logged in already")
		return
	case c.user == "":
		c.reply(503, "USER comes first")
		return
	}
	session, err := c.engine.handler.Login(c.ctx, c.user, password, c.Conn.RemoteAddr())
	if err != nil {
		c.refuse(err)
		return
	}
	if full := c.engine.admitUser(c, c.user); full != nil {
		session.Close()
		c.sayGoodbye(full.Code, "%s", full.Msg)
		return
	}
	c.session = session
	if r, ok := session.(Revocable); ok {
		r.Revoke(c.dismiss)
	}
	goftp.DefaultCommands()["PASS"].Execute(c.goftp, password)
	c.log.Debug("ftp: logged in", "user", c.user)
}

// refuse answers a login that failed.
func (c *conn) refuse(err error) {
	var answer *Error
	later := errors.As(err, &answer) && answer.Code < 500
	if !later {
		c.tries++
	}
	if answer == nil {
		c.log.Error("ftp: login", "user", c.user, "error", err)
	}
	c.fail(err)
	if c.tries >= maxTries {
		c.hangup = true
	}
	c.user = ""
}

// loginDeadline is when a connection that has not logged in is closed.
func (c *conn) loginDeadline() time.Time { return c.since.Add(c.engine.LoginTimeout) }
