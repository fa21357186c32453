package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/robotd"
	"sheaf/test/servicetest"
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
	joined := c.run([]string{"robotd join " + c.url}, "robot", "add", "waseda")
	token := strings.Fields(joined)[3]
	if name, err := robotd.Join(t.Context(), c.url, token, filepath.Join(t.TempDir(), "robot")); err != nil || name != "waseda" {
		t.Fatalf("the printed command joins %q, %v", name, err)
	}
	c.run([]string{"waseda", "away"}, "robot", "ls")
	c.run([]string{"2 hosts added"}, "host", "add", "http://127.0.0.1:81/", "http://127.0.0.1:82/start")
	c.run([]string{"127.0.0.1:81", "accepted", "operator"}, "host", "ls")
	c.run(nil, "host", "rm", "127.0.0.1:81")
	c.run([]string{"refused"}, "host", "ls", "--state", "refused")
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
	c.run([]string{"down from version 1"}, "host", "takedown", "www.example.jp", "--reason", "court order 17", "--by", "alice")
	c.run([]string{"again from version 2"}, "host", "restore", "www.example.jp", "--reason", "overturned")
	c.run([]string{"court order 17", "alice", "overturned"}, "host", "takedowns")
	c.run([]string{"court order 17"}, "host", "takedowns", "www.example.jp", "--json")
	c.run([]string{"dry run", "deleted   0 objects"}, "gc", "--dry-run")
	c.run([]string{`"condemned"`}, "gc", "--json")
	c.run(nil, "robot", "revoke", "waseda")
	c.run([]string{"revoked"}, "robot", "ls")
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
		{"no host", []string{"host", "takedown", "http://www.example.jp/", "--reason", "x"}},
		{"does not begin with", []string{"host", "takedown", "www.example.jp", "--url-prefix", "/secret", "--reason", "x"}},
		{"no take-down", []string{"host", "restore", "www.example.jp", "--reason", "x"}},
		{"operators", []string{"robot", "ls", "--token", "wrong"}},
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
