package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/robotd"
	"sheaf/test/servicetest"
	"sheaf/ui/removal"
)

// console is an operator's terminal beside a running service.
type console struct {
	*testing.T
	url, data, drop string
}

// startService starts a service with these settings beside those that a test has.
func startService(t *testing.T, settings map[string]any) console {
	t.Helper()
	s := servicetest.Start(t, settings)
	return console{t, s.At.HTTP, s.Data, s.At.Drop}
}

func (c console) try(args ...string) (string, error) {
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetArgs(append(args, "--url", c.url, "--data", c.data))
	err := root.ExecuteContext(c.Context())
	return out.String(), err
}

// run runs a command and expects its output to hold each of the words.
func (c console) run(words []string, args ...string) string {
	c.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.Fatalf("sheaf %s: %v", strings.Join(args, " "), err)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			c.Errorf("sheaf %s: no %q in\n%s", strings.Join(args, " "), word, out)
		}
	}
	return out
}

func TestOperatorsCommands(t *testing.T) {
	c := startService(t, nil)
	joined := c.run([]string{"robotd join " + c.url, "Only this machine reaches " + c.url, "sudo -u sheaf-robot robotd join"}, "robot", "add", "waseda")
	token := strings.Fields(joined)[3]
	if name, err := robotd.Join(t.Context(), c.url, token, filepath.Join(t.TempDir(), "robot")); err != nil || name != "waseda" {
		t.Fatalf("the printed command joins %q, %v", name, err)
	}
	c.run([]string{"waseda", "away"}, "robot", "ls")
	c.run([]string{"2 hosts added"}, "host", "add", "http://127.0.0.1:81/", "http://127.0.0.1:82/start")
	c.run([]string{"127.0.0.1:81", "accepted", "operator"}, "host", "ls")
	c.run(nil, "host", "rm", "127.0.0.1:81")
	c.run([]string{"refused"}, "host", "ls", "--state", "refused")
	if _, err := c.try("host", "assign", "127.0.0.1:82", "waseda", "--reason", "near"); err == nil || !strings.Contains(err.Error(), "takes no part") {
		t.Errorf("assigned to a robot that is away: %v", err)
	}
	c.run([]string{"1 hosts assigned to whichever"}, "host", "assign", "127.0.0.1:82", "--auto")
	c.run([]string{"127.0.0.1:82", "accepted", "no robot has told of a visit"}, "host", "show", "127.0.0.1:82")
	c.run([]string{"1 hosts to the plan's choice: 127.0.0.1:82"}, "audit")
	c.run([]string{"nothing is wrong"}, "wrong")
	c.run([]string{"alice", "wonderland"}, "account", "add", "alice", "--domain", "jp,ac.uk", "--password", "wonderland",
		"--window", "Mon-Fri 00:00-12:00,13:00-24:00 Asia/Tokyo")
	c.run([]string{"alice", "jp ac.uk", "13:00-24:00"}, "account", "ls")
	c.run([]string{`"domains"`}, "account", "ls", "--json")
	c.run([]string{"alice", "1MiB Mon-Fri 09:00-18:00 Asia/Tokyo | 10MiB", "50GiB", "13:00-24:00"}, "account", "set", "alice",
		"--rate", "1MiB Mon-Fri 09:00-18:00 Asia/Tokyo | 10MiB", "--quota", "50GiB")
	c.run([]string{"unlimited", "none", "always", "jp ac.uk"}, "account", "set", "alice", "--rate", "unlimited", "--quota", "0", "--window", "always")
	c.run(nil, "account", "rm", "alice")
	c.run([]string{"quarantined", "0"}, "batch", "ls")
	c.run([]string{"bytes/s"}, "transfers")
	c.run([]string{"down from version 1"}, "host", "takedown", "www.example.jp", "--unknown", "--reason", "court order 17", "--by", "alice")
	c.run([]string{"again from version 2"}, "host", "restore", "www.example.jp", "--reason", "overturned")
	c.run([]string{"court order 17", "alice", "overturned"}, "host", "takedowns")
	c.run([]string{"court order 17"}, "host", "takedowns", "www.example.jp", "--json")
	c.run([]string{"dry run", "deleted   0 objects"}, "gc", "--dry-run")
	c.run([]string{`"condemned"`}, "gc", "--json")
	page := c.run([]string{c.url + "/robot/waseda/"}, "robot", "page", "waseda")
	if other := c.run([]string{c.url + "/robot/waseda/"}, "robot", "page", "waseda", "--revoke"); other == page || other != c.run(nil, "robot", "page", "waseda") {
		t.Errorf("the link %s was not revoked: %s", page, other)
	}
	c.run(nil, "host", "domain", "refuse", "left.example.jp", "--reason", "its owner")
	c.run([]string{"left.example.jp", "its owner"}, "host", "domain", "ls")
	c.run(nil, "host", "domain", "allow", "left.example.jp")
	c.run(nil, "robot", "revoke", "waseda")
	c.run([]string{"revoked"}, "robot", "ls")
	c.run(nil, "robot", "rm", "waseda")
	if out := c.run(nil, "robot", "ls"); strings.Contains(out, "waseda") {
		t.Errorf("the removed robot is listed: %s", out)
	}
	c.run(nil, "host", "add", "http://www.a.jp/", "http://www.b.jp/", "http://www.c.jp/")
	if _, err := c.try("host", "rm", "www.a.jp", "www.typo.jp", "www.b.jp"); err == nil || !strings.Contains(err.Error(), "www.typo.jp") {
		t.Errorf("host rm of an unknown host: %v", err)
	}
	if out := c.run([]string{"www.c.jp"}, "host", "ls", "--state", "accepted"); strings.Contains(out, "www.a.jp") || strings.Contains(out, "www.b.jp") {
		t.Errorf("hosts beside an unknown one were not removed: %s", out)
	}
	c.run([]string{"0 hosts accepted"}, "host", "accept", "--all")
}

// What owners of sites ask for is listed, shown, granted and refused by commands. What they write
// cannot drive the operator's terminal.
func TestRemovalCommands(t *testing.T) {
	c := startService(t, nil)
	ask := func(host string) (id string) {
		t.Helper()
		resp, err := http.PostForm(c.url+removal.Path, url.Values{"wish": {"removal"}, "kind": {"host"}, "target": {host}, "email": {"owner@mail.example"}, "reason": {"\x1b[2Jit is private"}})
		testkit.Must(t, err)
		resp.Body.Close()
		return strings.Split(resp.Request.URL.Path, "/")[2]
	}
	one, two := ask("www.one.jp"), ask("www.two.jp")
	c.run([]string{one, two, "www.one.jp", "open"}, "removal", "ls", "--state", "open")
	if out := c.run([]string{"it is private", "owner@mail.example", "asked"}, "removal", "show", one); strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
	if _, err := c.try("removal", "grant", one); err == nil || !strings.Contains(err.Error(), "--unproved") {
		t.Errorf("granted without proof: %v", err)
	}
	c.run([]string{"granted", "carried out"}, "removal", "grant", one, "--unproved", "--by", "ops")
	if _, err := c.try("removal", "refuse", two); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("refused without a reason: %v", err)
	}
	c.run([]string{"refused", "not yours"}, "removal", "refuse", two, "--reason", "not yours", "--by", "ops")
	c.run([]string{"www.one.jp", "ops"}, "host", "takedowns")
	c.run([]string{"www.one.jp"}, "host", "ls", "--state", "refused")
}

// TestConfigNamesTheService shows that operators' commands find the service by its settings file,
// and that no SHEAF_URL of another service leads them astray.
func TestConfigNamesTheService(t *testing.T) {
	c := startService(t, nil)
	t.Setenv("SHEAF_URL", "http://127.0.0.1:1")
	file := filepath.Join(t.TempDir(), "sheaf.yaml")
	text := fmt.Sprintf("data: %s\nhttp: {listen: %q}\n", c.data, strings.TrimPrefix(c.url, "http://"))
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	root := rootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"robot", "ls", "--config", file})
	if err := root.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "robot") {
		t.Errorf("sheaf robot ls --config: %v\n%s", err, out.String())
	}
}

func TestOperatorsMistakes(t *testing.T) {
	c := startService(t, nil)
	for _, m := range []struct {
		says string
		args []string
	}{
		{"DNS label", []string{"robot", "add", "Not A Name"}},
		{"hosts[0]", []string{"host", "add", "gopher://example.jp/"}},
		{"25:00", []string{"account", "add", "bob", "--window", "25:00-26:00"}},
		{"--rate", []string{"account", "add", "bob", "--rate", "fast"}},
		{"--quota", []string{"account", "set", "alice", "--quota", "1MB"}},
		{"no such account", []string{"account", "set", "bob", "--quota", "0"}},
		{"no batch", []string{"batch", "show", "waseda-20261121T020000Z-1"}},
		{"reason", []string{"host", "takedown", "www.example.jp"}},
		{"not a host", []string{"host", "takedown", "http://www.example.jp/", "--reason", "x"}},
		{"want the beginning of a URL", []string{"host", "takedown", "www.example.jp", "--url-prefix", "/secret", "--reason", "x"}},
		{"nothing of the host www.exmaple.jp", []string{"host", "takedown", "www.exmaple.jp", "--reason", "x"}},
		{"no take-down", []string{"host", "restore", "www.example.jp", "--reason", "x"}},
		{"the token is wrong", []string{"robot", "ls", "--token", "wrong"}},
		{"has no unit; write 50GiB", []string{"account", "add", "bob", "--quota", "50"}},
		{"placeholder", []string{"robot", "add", "waseda", "--contact", "https://robots.example.com/"}},
		{"neither a URL nor a mail address", []string{"robot", "add", "waseda", "--contact", "me"}},
		{"has no domain", []string{"host", "add", "http://intranet/"}},
		{"which hosts?", []string{"host", "accept"}},
		{"www.example.jp is not pending", []string{"host", "refuse", "www.example.jp"}},
		{"no robot of this name", []string{"robot", "rm", "waseda"}},
	} {
		if _, err := c.try(m.args...); err == nil || !strings.Contains(err.Error(), m.says) {
			t.Errorf("sheaf %s: error %v; want one that says %q", strings.Join(m.args, " "), err, m.says)
		}
	}
	c.data = t.TempDir()
	if _, err := c.try("robot", "ls"); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("without a token file: %v", err)
	}
}
