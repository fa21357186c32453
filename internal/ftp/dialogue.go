package ftp

import (
	"strconv"
	"strings"

	goftp "goftp.io/server/v2"
)

// feat answers FEAT with what works here, now.
func (c *conn) feat(string) {
	features := []string{"Features:"}
	if c.engine.TLS != nil {
		features = append(features, "AUTH TLS", "PBSZ", "PROT")
	}
	if !c.engine.NoActive {
		features = append(features, "EPRT")
	}
	features = append(features, "EPSV", "HASH SHA-256*", "MDTM", "MLST "+c.facts.feature(),
		"REST STREAM", "SIZE", "TVFS", "UTF8", "XSHA256", "End")
	c.reply(211, "%s", strings.Join(features, "\n"))
}

// help answers HELP.
func (c *conn) help(string) {
	c.reply(214, "%s", strings.Join([]string{
		"Commands:",
		"ABOR ALLO APPE AUTH CDUP CLNT CWD EPRT EPSV FEAT HASH HELP LIST MDTM MLSD",
		"MLST MODE NLST NOOP OPTS PASS PASV PBSZ PORT PROT PWD QUIT REST RETR SIZE",
		"STAT STOR STRU SYST TYPE USER XCUP XCWD XPWD XSHA256",
		"End",
	}, "\n"))
}

// opts answers OPTS.
func (c *conn) opts(arg string) {
	name, value, _ := strings.Cut(strings.ToUpper(arg), " ")
	value = strings.TrimSpace(value)
	switch {
	case (name == "UTF8" || name == "UTF-8") && (value == "" || value == "ON"):
		c.reply(200, "Names are in UTF-8")
	case name == "MLST":
		c.facts = parseFacts(value)
		c.reply(200, "MLST OPTS %s", c.facts)
	case name == "HASH" && (value == "" || value == "SHA-256"):
		c.reply(200, "SHA-256")
	default:
		c.reply(501, "There is no such option")
	}
}

func (c *conn) syst(string) { c.reply(215, "UNIX Type: L8") }
func (c *conn) clnt(string) { c.reply(200, "Noted") }

// allo answers ALLO: a size, and perhaps "R" and the size of a record.
func (c *conn) allo(arg string) {
	session, ok := c.session.(Allocator)
	if !ok {
		c.reply(202, "No need to reserve room")
		return
	}
	size, _, _ := strings.Cut(strings.TrimSpace(arg), " ")
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 0 {
		c.reply(501, "ALLO takes a number of bytes")
		return
	}
	if err := session.Allocate(c.ctx, n); err != nil {
		c.fail(err)
		return
	}
	c.reply(200, "The next upload is taken to have %d bytes", n)
}

// abor answers ABOR when its transfer, if there was one, has ended.
func (c *conn) abor(string) {
	c.dropChannel()
	c.rest = 0
	c.reply(226, "No transfer is running any more")
}

// status answers STAT: a listing goes over a data channel or, one line of it,
// as MLST.
func (c *conn) status(arg string) {
	switch {
	case arg != "":
		c.reply(504, "Use MLST or LIST")
	case c.session == nil:
		c.reply(211, "Not logged in")
	default:
		c.reply(211, "Logged in as %s; files travel unchanged in stream mode", c.account)
	}
}

// setType answers TYPE. Archives are never translated, whatever the type.
func (c *conn) setType(arg string) {
	switch strings.ToUpper(strings.TrimSpace(arg)) {
	case "I", "L 8":
		c.reply(200, "Type is binary")
	case "A", "A N":
		c.reply(200, "Type is ASCII for listings; files travel unchanged")
	default:
		c.reply(504, "Only types I and A are known")
	}
}

func (c *conn) setMode(arg string) { c.only("S", "Mode is stream", arg) }
func (c *conn) setStru(arg string) { c.only("F", "Structure is file", arg) }

func (c *conn) only(value, answer, arg string) {
	if strings.EqualFold(strings.TrimSpace(arg), value) {
		c.reply(200, "%s", answer)
	} else {
		c.reply(504, "Only %s is known", value)
	}
}

// cwd answers CWD. goftp changes the directory once it is known to be one.
func (c *conn) cwd(arg string) {
	path, ok := c.path(arg)
	if !ok {
		return
	}
	e, err := c.session.Stat(c.ctx, path)
	switch {
	case err != nil:
		c.fail(err)
	case !e.Dir:
		c.reply(550, "%s is not a directory", path)
	default:
		c.found = e
		goftp.DefaultCommands()["CWD"].Execute(c.goftp, path)
	}
}

func (c *conn) cdup(string) { c.cwd("..") }

func (c *conn) pwd(string) {
	dir := strings.ReplaceAll(c.goftp.BuildPath(""), `"`, `""`)
	c.reply(257, `"%s" is the working directory`, dir)
}
