package ftp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLists(t *testing.T) {
	m := newMemory(map[string]string{"/jp/ac/a.tar.gz": "12345", "/jp/ac/日本 語.txt": "1", "/jp/README": "", "/jp/odd\rname": ""})
	c := login(t, start(t, m, nil).addr)
	sum := "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5"
	file := "type=file;size=5;modify=20240304220809;perm=arw;unique=" + sum[:16] + "; "
	dir := "type=dir;modify=20240304220809;perm=cel; "
	long := func(mode string, size int, name string) string {
		return fmt.Sprintf("%s   1 ftp      ftp      %12d Mar  4  2024 %s\r\n", mode, size, name)
	}
	ac := long("-rw-r--r--", 5, "a.tar.gz") + long("-rw-r--r--", 1, "日本 語.txt")
	c.cmd("250", "CWD /jp")
	for command, want := range map[string]string{
		"LIST ac": ac, "LIST -la ac": ac, "LIST -l -a /jp/ac/": ac, "LIST -- ac": ac,
		"LIST":              long("-rw-r--r--", 0, "README") + long("drwxr-xr-x", 0, "ac") + long("-rw-r--r--", 0, "odd?name"),
		"LIST ac/*.gz":      long("-rw-r--r--", 5, "a.tar.gz"),
		"LIST ac/日本 語.txt":  long("-rw-r--r--", 1, "日本 語.txt"),
		"NLST":              "README\r\nac\r\nodd?name\r\n",
		"NLST R*":           "README\r\n",
		"NLST /jp/ac/*.gz":  "/jp/ac/a.tar.gz\r\n",
		"NLST *.none":       "",
		"NLST -1 /jp/ac/a*": "/jp/ac/a.tar.gz\r\n",
		"NLST ac":           "a.tar.gz\r\n日本 語.txt\r\n",
		"MLSD /":            dir + "jp\r\n",
	} {
		if got := c.fetch("%s", command); got != want {
			t.Errorf("%s gave\n%q, want\n%q", command, got, want)
		}
	}
	if got := c.fetch("MLSD ac"); !strings.HasPrefix(got, file+"a.tar.gz\r\n") || strings.Count(got, "\r\n") != 2 {
		t.Errorf("MLSD ac gave %q", got)
	}
	c.data()
	c.cmd("501", "MLSD README")
	c.cmd("501", "LIST a[")
	c.cmd("550", "LIST none/*")
	c.cmd("550", "NLST none")

	for command, want := range map[string]string{
		"MLST ac/a.tar.gz":      "250-Facts:\r\n " + file + "/jp/ac/a.tar.gz\r\n250 End\r\n",
		"MLST":                  "250-Facts:\r\n " + dir + "/jp\r\n250 End\r\n",
		"MDTM ac/a.tar.gz":      "213 20240304220809\r\n",
		"SIZE ac/a.tar.gz":      "213 5\r\n",
		"HASH ac/a.tar.gz":      "213 SHA-256 0-5 " + sum + " /jp/ac/a.tar.gz\r\n",
		"XSHA256 ac/a.tar.gz":   "250 " + sum + "\r\n",
		`XSHA256 "ac/a.tar.gz"`: "250 " + sum + "\r\n",
		"PWD":                   "257 \"/jp\" is the working directory\r\n",
	} {
		if got := c.cmd("2", "%s", command); got != want {
			t.Errorf("%s gave\n%q, want\n%q", command, got, want)
		}
	}
	c.cmd("200 MLST OPTS type;size;\r\n", "OPTS MLST size;Type;foo")
	if got := c.fetch("MLSD ac"); !strings.HasPrefix(got, "type=file;size=5; a.tar.gz\r\n") {
		t.Errorf("after OPTS MLST, MLSD ac gave %q", got)
	}
}

func TestRecentFilesShowTheHour(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for want, at := range map[string]time.Time{
		"Nov 21 11:00": now.Add(-time.Hour),
		"Jun  1 12:00": now.AddDate(0, -5, -20),
		"May  1  2026": now.AddDate(0, -6, -20),
		"Nov 23  2026": now.AddDate(0, 0, 2),
		"Jan  1  1970": {},
	} {
		if got := string(appendLong(nil, Entry{Name: "x", Modified: at}, now)); !strings.HasSuffix(got, " "+want+" x\r\n") {
			t.Errorf("%v is listed as %q, want %q", at, got, want)
		}
	}
	huge := string(appendLong(nil, Entry{Name: "x", Size: 12345678901234}, now))
	if !strings.Contains(huge, " 12345678901234 ") {
		t.Errorf("a huge file is listed as %q", huge)
	}
}

func TestNavigation(t *testing.T) {
	c := login(t, start(t, newMemory(map[string]string{`/a "b"/c/d`: ""}), nil).addr)
	c.cmd("250", `CWD a "b"/c`)
	if got := c.cmd("257", "PWD"); !strings.Contains(got, `"/a ""b""/c"`) {
		t.Errorf("PWD gave %q", got)
	}
	c.cmd("250", "CDUP")
	c.cmd("250", "XCUP")
	c.cmd("250", "CDUP")
	c.cmd("257 \"/\"", "XPWD")
	c.cmd("550", "CWD none")
	c.cmd("550", `CWD /a "b"/c/d`)
	c.cmd("250", "CWD ../../../..")
	c.cmd("257 \"/\"", "PWD")
	c.cmd("501", "CWD a\x01b")
}

func TestSmallTalk(t *testing.T) {
	m := newMemory(map[string]string{"/x": ""})
	r := start(t, m, nil)
	c := dial(t, r.addr)
	c.expect("220")
	for _, k := range []string{"215 UNIX=SYST", "200=NOOP", "214-=HELP", "211-=FEAT", "200=OPTS UTF8 ON", "200=OPTS UTF8",
		"501=OPTS X", "200=CLNT x", "211=STAT", "500=NONE", "500=", "502=AUTH TLS", "503=PBSZ 0", "503=PROT P", "504=AUTH KERBEROS",
		"503=PASS secret", "530=PWD", "530=RETR x", "530=LIST", "530=STOR x", "530=PASV", "530=PORT 127,0,0,1,9,9", "501=USER"} {
		code, command, _ := strings.Cut(k, "=")
		c.cmd(code, "%s", command)
	}
	c.cmd("331", "USER alice")
	c.cmd("230", "pass secret")
	for _, k := range []string{"503=USER bob", "503=PASS secret", "200=TYPE I", "200=TYPE A", "200=type a n", "200=TYPE L 8", "504=TYPE E",
		"200=MODE S", "504=MODE Z", "200=STRU F", "504=STRU P", "202=ALLO 100", "211=STAT", "504=STAT x", "425=LIST", "425=MLSD", "425=NLST",
		"451=SIZE panic", "200=NOOP", "550=SIZE none", "550=SIZE /", "550=HASH none", "501=MDTM", "200=EPSV ALL", "503=PASV", "503=PORT 127,0,0,1,9,9"} {
		code, command, _ := strings.Cut(k, "=")
		c.cmd(code, "%s", command)
	}
	for _, name := range strings.Fields(refused) {
		c.cmd("502", "%s x", name)
	}
	c.cmd("221", "QUIT")
	if text, err := c.reply(); err == nil {
		t.Errorf("after QUIT came %q", text)
	}
	r.stop()
	<-r.done
	if m.closed != 1 {
		t.Errorf("session closed %d times", m.closed)
	}
}

func TestRefusalsAreVerbatim(t *testing.T) {
	m := newMemory(map[string]string{"/x": ""})
	c := login(t, start(t, m, nil).addr)
	c.cmd("229", "EPSV")
	m.mu.Lock()
	m.refuse = fmt.Errorf("library: %w", &Error{450, "The window opens at 2026-11-22 02:00 JST"})
	m.mu.Unlock()
	for _, k := range []string{"RETR x", "LIST", "MLSD", "NLST", "SIZE x", "MDTM x", "CWD x", "CDUP", "MLST x", "HASH x"} {
		c.cmd("450 The window opens at 2026-11-22 02:00 JST\r\n", "%s", k)
	}
	m.mu.Lock()
	m.refuse = fmt.Errorf("open /var/lib/secret: denied")
	m.mu.Unlock()
	c.cmd("451 Local error; try again later\r\n", "RETR x")
}

// TestHelpIsTrue keeps HELP equal to the command table.
func TestHelpIsTrue(t *testing.T) {
	c := dial(t, start(t, newMemory(nil), nil).addr)
	c.expect("220")
	_, text, _ := strings.Cut(c.cmd("214", "HELP"), "\r\n")
	text, _, _ = strings.Cut(text, "214 ")
	var want []string
	for name := range commandTable() {
		if !has(refused, name) {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if got := strings.Fields(text); !slices.Equal(got, want) {
		t.Errorf("HELP names %v,\nthere are %v", got, want)
	}
}

// TestFeatIsTrue asks for every feature that FEAT names.
func TestFeatIsTrue(t *testing.T) {
	certificate, _ := certificate(t)
	for _, cfg := range []Config{{}, {TLS: certificate}} {
		c := login(t, start(t, newMemory(map[string]string{"/d/x": "1"}), func(c *Config) {
			c.TLS = cfg.TLS
		}).addr)
		feats := c.cmd("211", "FEAT")
		if strings.Contains(feats, "AUTH TLS") != (cfg.TLS != nil) {
			t.Errorf("with TLS %t, FEAT gave %q", cfg.TLS != nil, feats)
		}
		for line := range strings.Lines(feats) {
			if line[0] != ' ' {
				continue
			}
			switch name, arg, _ := strings.Cut(strings.TrimSpace(line), " "); name {
			case "AUTH", "PBSZ", "PROT":
				c.cmd("503", "%s %s", name, "TLS") // after the login
			case "EPRT":
				c.cmd("200", "EPRT |1|127.0.0.1|9999|")
			case "EPSV":
				c.cmd("229", "EPSV")
			case "HASH":
				c.cmd("213 SHA-256", "HASH /d/x")
			case "XSHA256", "SIZE", "MDTM":
				c.cmd("2", "%s /d/x", name)
			case "MLST":
				c.cmd("250", "MLST /d/x")
			case "REST":
				c.cmd("350", "REST 1")
			case "TVFS":
				c.cmd("213", "SIZE ./../d/x")
			case "UTF8":
				c.cmd("200", "OPTS UTF8 ON")
			default:
				t.Errorf("FEAT names %s %s", name, arg)
			}
		}
	}
}
