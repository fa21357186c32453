package ftp

import (
	"runtime/debug"
	"strings"

	goftp "goftp.io/server/v2"
)

// command is one FTP command in goftp's table.
type command struct {
	login bool // only after a login
	arg   bool // needs an argument
	run   func(c *conn, arg string)
}

// IsExtend is asked for goftp's FEAT, which is replaced.
func (command) IsExtend() bool { return false }

// RequireParam is false: goftp would refuse with 553, where 501 is due.
func (command) RequireParam() bool { return false }

// RequireAuth makes goftp refuse with 530 before the login.
func (k command) RequireAuth() bool { return k.login }

// Execute runs the command. A panic is logged and answered: goftp would recover
// it too, but leave the client waiting.
func (k command) Execute(s *goftp.Session, arg string) {
	c := connOf(s)
	c.goftp = s
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("ftp: command crashed", "panic", p, "stack", string(debug.Stack()))
			c.reply(451, "Local error; try again later")
		}
	}()
	if k.arg && arg == "" {
		c.reply(501, "The command needs an argument")
		return
	}
	k.run(c, arg)
}

// commands is the whole table. Where goftp's own command is sound it stands, or
// is called by ours for the state that only it can set.
func (e *engine) commands() map[string]goftp.Command {
	stock := goftp.DefaultCommands()
	open := func(run func(*conn, string)) command { return command{run: run} }
	withArg := func(run func(*conn, string)) command { return command{arg: true, run: run} }
	user := func(run func(*conn, string)) command { return command{login: true, run: run} }
	userArg := func(run func(*conn, string)) command { return command{login: true, arg: true, run: run} }

	table := map[string]goftp.Command{
		"QUIT": stock["QUIT"], "NOOP": stock["NOOP"],
		"AUTH": withArg((*conn).auth), "PBSZ": withArg((*conn).pbsz), "PROT": withArg((*conn).prot),
		"USER": withArg((*conn).setUser), "PASS": open((*conn).pass),
		"FEAT": open((*conn).feat), "HELP": open((*conn).help), "SYST": open((*conn).syst),
		"OPTS": withArg((*conn).opts), "CLNT": open((*conn).clnt), "STAT": open((*conn).status),
		"TYPE": userArg((*conn).setType), "MODE": userArg((*conn).setMode), "STRU": userArg((*conn).setStru),
		"ALLO": user((*conn).allo),
		"CWD":  userArg((*conn).cwd), "XCWD": userArg((*conn).cwd),
		"CDUP": user((*conn).cdup), "XCUP": user((*conn).cdup),
		"PWD": user((*conn).pwd), "XPWD": user((*conn).pwd),
		"PASV": user((*conn).pasv), "EPSV": user((*conn).epsv),
		"PORT": userArg((*conn).portCommand), "EPRT": userArg((*conn).eprt),
		"RETR": userArg((*conn).retr), "STOR": userArg((*conn).stor), "APPE": userArg((*conn).appe),
		"REST": userArg((*conn).setRest), "ABOR": user((*conn).abor),
		"LIST": user((*conn).list), "NLST": user((*conn).nlst),
		"MLSD": user((*conn).mlsd), "MLST": user((*conn).mlst),
		"SIZE": userArg((*conn).size), "MDTM": userArg((*conn).mdtm),
		"HASH": userArg((*conn).hash), "XSHA256": userArg((*conn).xsha256),
	}
	for _, name := range refused() {
		table[name] = user(func(c *conn, _ string) { c.reply(502, "%s is not supported here", name) })
	}
	return table
}

// refused are the commands that clients may try and that are meant to be
// missing: the tree's shape is the service's, and nothing is renamed or deleted
// by FTP.
func refused() []string {
	return strings.Fields(`ACCT ADAT CCC CONF DELE ENC HOST LANG LPRT LPSV MFCT MFF MFMT MIC MKD RANG REIN
		RMD RNFR RNTO SITE SMNT STOU XMKD XRMD XCRC XMD5 XSHA XSHA1 XSHA512`)
}

// path is the absolute path that an argument names.
func (c *conn) path(arg string) (string, bool) {
	if printable(arg) != arg {
		c.reply(501, "Names have no control characters here")
		return "", false
	}
	return c.goftp.BuildPath(arg), true
}
