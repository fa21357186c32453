package ftp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	goftp "goftp.io/server/v2"

	"sheaf/internal/peer"
)

// errStopped is the cause of a client's context when the server cuts the client's connection.
var errStopped = errors.New("the service has stopped")

// client is one connection of a client, in the form in which goftp gets it. Its parts have the
// commands; each part knows only what it needs.
type client struct {
	*controlConn
	dialogue *dialogue
	cancel   context.CancelCauseFunc
	registry *registry
	place    *place

	authenticator *authenticator
	ports         *ports
	tree          *tree
	transfers     *transfers
	info          *info

	closing sync.Once
}

func newClient(ctx context.Context, s *server, raw net.Conn) *client {
	cfg := &s.cfg
	ctx, cancel := context.WithCancelCause(peer.WithRequest(ctx, peer.NewID()))
	log := cfg.Log.With("remote", raw.RemoteAddr().String())
	conn, err := newControl(raw, Timeouts{Login: cfg.LoginTimeout, Idle: cfg.IdleTimeout})
	if err != nil {
		log.WarnContext(ctx, "ftp: an ABOR that is sent as urgent data may be missed", "err", err)
	}
	d := &dialogue{control: conn, session: ctx, ctx: ctx, log: log, dataTimeout: cfg.DataTimeout}
	c := &client{controlConn: conn, dialogue: d, cancel: cancel, registry: s.registry}
	c.place = &place{peer: peer.AddrOf(raw.RemoteAddr()), dismiss: d.dismiss, cut: c.cut}
	c.place.network = peer.Network(c.place.peer)
	c.tree = &tree{d: d, dir: "/", facts: allFacts}
	c.authenticator = &authenticator{d: d, server: s, place: c.place, tree: c.tree}
	c.ports = &ports{d: d, cfg: cfg, passive: s.passive, client: c.place.peer}
	c.transfers = &transfers{d: d, tree: c.tree, ports: c.ports, follower: s.follower}
	c.info = &info{d: d, cfg: cfg, tree: c.tree}
	return c
}

// secure begins TLS on the control connection and sets it for data connections, without AUTH and
// PROT. The handshake happens when the greeting is sent, in the connection's own goroutine.
func (c *client) secure(config *tls.Config) {
	raw := c.controlConn.Conn
	raw.SetReadDeadline(time.Now().Add(HandshakeTime))
	c.StartTLS(tls.Server(raw, config))
	c.ports.private, c.ports.implicit = true, true
}

// cut closes the client's connections and ends its running command.
func (c *client) cut() {
	c.cancel(errStopped)
	c.Cut()
}

// close ends the client's session and connections.
func (c *client) close() {
	c.cancel(net.ErrClosed)
	c.ports.drop()
	c.controlConn.Close()
	if s := c.tree.session; s != nil {
		if err := s.Close(); err != nil {
			c.dialogue.log.WarnContext(c.dialogue.session, "ftp: closing a session", "err", err)
		}
	}
	c.registry.forget(c.place)
}

// RemoteAddr returns the client's address, in which clientOf finds the client.
func (c *client) RemoteAddr() net.Addr { return address{c.controlConn.RemoteAddr(), c} }

// Close is called by goftp at the session's end.
func (c *client) Close() error {
	c.closing.Do(c.close)
	return nil
}

type address struct {
	net.Addr
	client *client
}

// clientOf returns the client of a goftp session. goftp passes only the session to a command.
func clientOf(s *goftp.Session) *client { return s.RemoteAddr().(address).client }

// dialogue sends the replies to one client.
type dialogue struct {
	control     *controlConn
	session     context.Context // ends with the connection; its log lines have the session's ID
	ctx         context.Context // of the running command, within session
	commands    int             // number of commands that were begun
	log         *slog.Logger
	dataTimeout time.Duration
}

// reply sends a reply. It returns nil, so that a command can end with it.
func (d *dialogue) reply(code int, format string, args ...any) error {
	d.control.Reply(code, fmt.Sprintf(format, args...))
	return nil
}

// begin begins a command. The command's log lines have the session's ID and the command's number.
func (d *dialogue) begin(command, arg string) {
	d.commands++
	d.ctx = peer.WithRequest(d.session, fmt.Sprintf("%s.%d", peer.Request(d.session), d.commands))
	if command == "PASS" {
		arg = "***"
	}
	d.log.DebugContext(d.ctx, "ftp: command", "command", command, "argument", arg)
}

// dismiss sends the client away: now if it is idle, otherwise after its command.
func (d *dialogue) dismiss(why *Error) { d.control.Dismiss(why.Code, why.Msg) }

// fail replies that a command has failed. It logs errors that are the service's own fault.
func (d *dialogue) fail(err error) {
	var answer *Error
	switch {
	case errors.Is(err, ErrAborted):
		d.reply(426, "Transfer aborted")
	case errors.Is(err, ErrLost), errors.Is(err, errStopped):
		d.reply(426, "Transfer aborted: connection closed")
	case d.ctx.Err() != nil, errors.Is(err, context.Canceled): // the client has gone: nobody's fault
		d.reply(426, "Transfer aborted")
	case errors.As(err, &answer) && answer.Code >= 400 && answer.Code <= 599:
		d.control.Reply(answer.Code, answer.Msg)
		if answer.Code == 421 {
			d.control.HangUp()
		}
	case errors.Is(err, errUnopened):
		d.reply(425, "Cannot open the data connection")
	case errors.Is(err, errBroken) && errors.Is(err, os.ErrDeadlineExceeded):
		d.reply(426, "No data moved, or next to none, for %v; transfer aborted", d.dataTimeout)
	case errors.Is(err, errBroken):
		d.reply(426, "Data connection broken; transfer aborted")
	default:
		d.log.ErrorContext(d.ctx, "ftp: command failed", "err", err)
		d.reply(451, "Local error; try again later")
	}
}

// refuse returns the error for a command that is answered with this code and text.
func refuse(code int, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// printable returns an error unless an argument has no control characters.
func printable(arg string) error {
	if Printable(arg) != arg {
		return refuse(501, "Names have no control characters here")
	}
	return nil
}
