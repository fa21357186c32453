package ftp

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	goftp "goftp.io/server/v2"
)

// command is one FTP command in goftp's table.
type command struct {
	name  string
	login bool // only after a login
	arg   bool // needs an argument
	run   func(c *client, arg string) error
}

// IsExtend is only for goftp's FEAT, which is replaced.
func (command) IsExtend() bool { return false }

// RequireParam is false: goftp would refuse with 553 where 501 is due.
func (command) RequireParam() bool { return false }

// RequireAuth is false: goftp does not know of the login.
func (command) RequireAuth() bool { return false }

// Execute runs the command, and answers its error. It logs and answers a panic: goftp would recover
// from it too, but leave the client waiting.
func (k command) Execute(s *goftp.Session, arg string) {
	c := clientOf(s)
	c.dialogue.begin(k.name, arg)
	defer func() {
		if p := recover(); p != nil {
			c.dialogue.log.ErrorContext(c.dialogue.ctx, "ftp: command crashed", "panic", p, "stack", string(debug.Stack()))
			c.dialogue.reply(451, "Local error; try again later")
		}
	}()
	var err error
	switch {
	case k.login && c.tree.session == nil:
		err = refuse(530, "Log in first")
	case k.arg && arg == "":
		err = refuse(501, "The command needs an argument")
	default:
		err = k.run(c, arg)
	}
	if err != nil {
		c.dialogue.fail(err)
	}
}

const (
	// withoutLogin are the commands that are allowed before a login.
	withoutLogin = "AUTH PBSZ PROT USER PASS FEAT HELP SYST OPTS CLNT STAT"
	// withArgument are the commands that need an argument.
	withArgument = `AUTH PBSZ PROT USER OPTS TYPE MODE STRU CWD XCWD PORT EPRT RETR STOR APPE REST SIZE MDTM
		HASH XSHA256`
	// refused are commands that clients may try and that the server refuses on purpose: the service
	// alone decides on its tree, so clients cannot rename or delete files.
	refused = `ACCT ADAT CCC CONF DELE ENC HOST LANG LPRT LPSV MFCT MFF MFMT MIC MKD RANG REIN RMD RNFR
		RNTO SITE SMNT STOU XMKD XRMD XCRC XMD5 XSHA XSHA1 XSHA512`
)

// commandTable returns all commands by name, for goftp.
func commandTable() map[string]goftp.Command {
	run := make(map[string]func(*client, string) error)
	add(run, func(c *client) *authenticator { return c.authenticator }, map[string]func(*authenticator, string) error{
		"AUTH": (*authenticator).auth, "PBSZ": (*authenticator).pbsz, "USER": (*authenticator).user, "PASS": (*authenticator).pass,
	})
	add(run, func(c *client) *info { return c.info }, map[string]func(*info, string) error{
		"FEAT": (*info).feat, "HELP": (*info).help, "SYST": (*info).syst, "OPTS": (*info).opts, "CLNT": (*info).clnt,
		"STAT": (*info).stat, "TYPE": (*info).typ, "MODE": (*info).mode, "STRU": (*info).stru,
	})
	add(run, func(c *client) *tree { return c.tree }, map[string]func(*tree, string) error{
		"CWD": (*tree).cwd, "XCWD": (*tree).cwd, "CDUP": (*tree).cdup, "XCUP": (*tree).cdup,
		"PWD": (*tree).pwd, "XPWD": (*tree).pwd, "ALLO": (*tree).allo,
		"MLST": (*tree).mlst, "SIZE": (*tree).size, "MDTM": (*tree).mdtm, "HASH": (*tree).hash, "XSHA256": (*tree).xsha256,
	})
	add(run, func(c *client) *ports { return c.ports }, map[string]func(*ports, string) error{
		"PROT": (*ports).prot, "PASV": (*ports).pasv, "EPSV": (*ports).epsv, "PORT": (*ports).port, "EPRT": (*ports).eprt,
	})
	add(run, func(c *client) *transfers { return c.transfers }, map[string]func(*transfers, string) error{
		"RETR": (*transfers).retr, "STOR": (*transfers).stor, "APPE": (*transfers).appe, "REST": (*transfers).setRest,
		"ABOR": (*transfers).abor, "LIST": (*transfers).list, "NLST": (*transfers).nlst, "MLSD": (*transfers).mlsd,
	})
	for name := range strings.FieldsSeq(refused) {
		run[name] = func(*client, string) error { return refuse(502, "%s is not supported here", name) }
	}
	stock := goftp.DefaultCommands()
	table := map[string]goftp.Command{"QUIT": stock["QUIT"], "NOOP": stock["NOOP"]}
	for name := range maps.Keys(run) {
		table[name] = command{name: name, login: !has(withoutLogin, name), arg: has(withArgument, name), run: run[name]}
	}
	return table
}

// add adds the commands of one part of a client.
func add[Part any](to map[string]func(*client, string) error, part func(*client) *Part, commands map[string]func(*Part, string) error) {
	for name, run := range commands {
		to[name] = func(c *client, arg string) error { return run(part(c), arg) }
	}
}

func has(words, word string) bool {
	return slices.Contains(strings.Fields(words), word)
}

// info has the commands that describe the server and set options of the session.
type info struct {
	d    *dialogue
	cfg  *Config
	tree *tree
}

// feat answers FEAT with the features that the client can use now.
func (i *info) feat(string) error {
	features := []string{"Features:"}
	if i.cfg.TLS != nil {
		features = append(features, "AUTH TLS", "PBSZ", "PROT")
	}
	features = append(features, "EPRT", "EPSV", "HASH SHA-256*", "MDTM", "MLST "+i.tree.facts.feature(),
		"REST STREAM", "SIZE", "TVFS", "UTF8", "XSHA256", "End")
	return i.d.reply(211, "%s", strings.Join(features, "\n"))
}

// help answers HELP with the names of the commands.
func (i *info) help(string) error {
	return i.d.reply(214, `Commands:
ABOR ALLO APPE AUTH CDUP CLNT CWD EPRT EPSV FEAT HASH HELP LIST MDTM MLSD
MLST MODE NLST NOOP OPTS PASS PASV PBSZ PORT PROT PWD QUIT REST RETR SIZE
STAT STOR STRU SYST TYPE USER XCUP XCWD XPWD XSHA256
End`)
}

// opts answers OPTS for UTF8, MLST and HASH.
func (i *info) opts(arg string) error {
	name, value, _ := strings.Cut(strings.ToUpper(arg), " ")
	value = strings.TrimSpace(value)
	switch {
	case (name == "UTF8" || name == "UTF-8") && (value == "" || value == "ON"):
		return i.d.reply(200, "Names are in UTF-8")
	case name == "MLST":
		i.tree.facts = parseFacts(value)
		return i.d.reply(200, "MLST OPTS %s", i.tree.facts)
	case name == "HASH" && (value == "" || value == "SHA-256"):
		return i.d.reply(200, "SHA-256")
	}
	return refuse(501, "There is no such option")
}

func (i *info) syst(string) error { return i.d.reply(215, "UNIX Type: L8") }
func (i *info) clnt(string) error { return i.d.reply(200, "Noted") }

// stat answers STAT. It refuses STAT of a file, for which there are MLST and LIST.
func (i *info) stat(arg string) error {
	switch {
	case arg != "":
		return refuse(504, "Use MLST or LIST")
	case i.tree.session == nil:
		return i.d.reply(211, "Not logged in")
	}
	return i.d.reply(211, "Logged in as %s; files travel unchanged in stream mode", i.tree.user)
}

// typ answers TYPE. Files are never translated, whatever the type.
func (i *info) typ(arg string) error {
	switch strings.ToUpper(strings.TrimSpace(arg)) {
	case "I", "L 8":
		return i.d.reply(200, "Type is binary")
	case "A", "A N":
		return i.d.reply(200, "Type is ASCII for listings; files travel unchanged")
	}
	return refuse(504, "Only types I and A are known")
}

func (i *info) mode(arg string) error { return i.only("S", "Mode is stream", arg) }
func (i *info) stru(arg string) error { return i.only("F", "Structure is file", arg) }

func (i *info) only(value, answer, arg string) error {
	if !strings.EqualFold(strings.TrimSpace(arg), value) {
		return refuse(504, "Only %s is known", value)
	}
	return i.d.reply(200, "%s", answer)
}
