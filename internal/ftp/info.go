package ftp

import "strings"

// info has the commands that describe the server and set options of the session.
type info struct {
	d    *dialogue
	cfg  *Config
	tree *tree
}

// feat answers FEAT with the features that the client can use now.
func (i *info) feat(string) {
	features := []string{"Features:"}
	if i.cfg.TLS != nil {
		features = append(features, "AUTH TLS", "PBSZ", "PROT")
	}
	features = append(features, "EPRT", "EPSV", "HASH SHA-256*", "MDTM", "MLST "+i.tree.facts.feature(),
		"REST STREAM", "SIZE", "TVFS", "UTF8", "XSHA256", "End")
	i.d.reply(211, "%s", strings.Join(features, "\n"))
}

// help answers HELP with the names of the commands.
func (i *info) help(string) {
	i.d.reply(214, `Commands:
ABOR ALLO APPE AUTH CDUP CLNT CWD EPRT EPSV FEAT HASH HELP LIST MDTM MLSD
MLST MODE NLST NOOP OPTS PASS PASV PBSZ PORT PROT PWD QUIT REST RETR SIZE
STAT STOR STRU SYST TYPE USER XCUP XCWD XPWD XSHA256
End`)
}

// opts answers OPTS for UTF8, MLST and HASH.
func (i *info) opts(arg string) {
	name, value, _ := strings.Cut(strings.ToUpper(arg), " ")
	value = strings.TrimSpace(value)
	switch {
	case (name == "UTF8" || name == "UTF-8") && (value == "" || value == "ON"):
		i.d.reply(200, "Names are in UTF-8")
	case name == "MLST":
		i.tree.facts = parseFacts(value)
		i.d.reply(200, "MLST OPTS %s", i.tree.facts)
	case name == "HASH" && (value == "" || value == "SHA-256"):
		i.d.reply(200, "SHA-256")
	default:
		i.d.reply(501, "There is no such option")
	}
}

func (i *info) syst(string) { i.d.reply(215, "UNIX Type: L8") }
func (i *info) clnt(string) { i.d.reply(200, "Noted") }

// stat answers STAT. It refuses STAT of a file, for which there are MLST and LIST.
func (i *info) stat(arg string) {
	switch {
	case arg != "":
		i.d.reply(504, "Use MLST or LIST")
	case i.tree.session == nil:
		i.d.reply(211, "Not logged in")
	default:
		i.d.reply(211, "Logged in as %s; files travel unchanged in stream mode", i.tree.user)
	}
}

// typ answers TYPE. Files are never translated, whatever the type.
func (i *info) typ(arg string) {
	switch strings.ToUpper(strings.TrimSpace(arg)) {
	case "I", "L 8":
		i.d.reply(200, "Type is binary")
	case "A", "A N":
		i.d.reply(200, "Type is ASCII for listings; files travel unchanged")
	default:
		i.d.reply(504, "Only types I and A are known")
	}
}

func (i *info) mode(arg string) { i.only("S", "Mode is stream", arg) }
func (i *info) stru(arg string) { i.only("F", "Structure is file", arg) }

func (i *info) only(value, answer, arg string) {
	if strings.EqualFold(strings.TrimSpace(arg), value) {
		i.d.reply(200, "%s", answer)
	} else {
		i.d.reply(504, "Only %s is known", value)
	}
}
