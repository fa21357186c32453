package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
)

// setUp runs `sheaf setup` with flags and the answers on its standard input.
func setUp(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	root := rootCommand()
	root.SetArgs(append([]string{"setup"}, args...))
	root.SetIn(strings.NewReader(""))
	root.SetOut(&b)
	root.SetErr(&b)
	err = root.ExecuteContext(t.Context())
	return b.String(), err
}

// TestSetup sets up an installation and starts it: its first operator can log in with the printed
// password, and the release key is registered. A second time changes nothing.
func TestSetup(t *testing.T) {
	dir := t.TempDir()
	config, data, key := filepath.Join(dir, "sheaf.yaml"), filepath.Join(dir, "data"), filepath.Join(dir, "release.key")
	public, private, err := minisign.GenerateKey(nil)
	testkit.Must(t, err)
	text, err := private.MarshalText()
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(key, text, 0o600)) // without a password: making one with a password takes seconds
	args := []string{"--config", config, "--data", data, "--name", "Test archive", "--address", "http://archive.example.jp:8080",
		"--contact", "ops@example.jp", "--operator", "sato", "--set", "publish.window=always"}
	out, err := setUp(t, args...)
	testkit.Must(t, err)
	_, password, _ := strings.Cut(out, "Operator sato has the password ")
	password, _, _ = strings.Cut(password, "\n")

	written, err := os.ReadFile(config)
	testkit.Must(t, err)
	if out, err := setUp(t, args...); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("a second setup: %v\n%s", err, out)
	}
	if again, _ := os.ReadFile(config); !bytes.Equal(written, again) {
		t.Error("a second setup changes the settings")
	}

	cfg, err := service.Load(config, map[string]any{"http.listen": "127.0.0.1:0", "download.listen": "", "drop.listen": "", "metrics": ""})
	testkit.Must(t, err)
	if cfg.Serve.Site.Name != "Test archive" || cfg.HTTP.Public != "http://archive.example.jp:8080" || cfg.Ingest.Publish.Window != "always" {
		t.Errorf("the settings are\n%s", written)
	}
	s, err := service.New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	defer func() { stop(); testkit.Must(t, <-ended) }()
	r, err := http.NewRequest(http.MethodGet, s.Addresses().HTTP+api.PathAdminReleases+"/key", nil)
	testkit.Must(t, err)
	r.SetBasicAuth("sato", password)
	answer, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	defer answer.Body.Close()
	var body bytes.Buffer
	body.ReadFrom(answer.Body)
	if answer.StatusCode != http.StatusOK || !strings.Contains(body.String(), public.String()) {
		t.Errorf("the operator asks for the release key, and gets %s %s", answer.Status, &body)
	}
	checkDoctor(t, s.Addresses().HTTP, data)
}

// TestSetupRefuses: what cannot be used is refused, with its key or flag and its value, and leaves
// no settings.
func TestSetupRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--contact x", "--address is missing"},
		{"--address http://a.example.jp", "--contact is missing"},
		{"--contact x --address archive.example.jp", `--address: "archive.example.jp": want a URL`},
		{"--contact x --address http://a.example.jp --store s3", `--store: "s3": want fs, or a bucket`},
		{"--contact x --address http://a.example.jp --store https://u:p@s3.example.jp/b", "without credentials"},
		{"--contact x --address http://a.example.jp --store https://s3.example.jp", `store.bucket: "": want a bucket's name`},
		{"--contact x --address https://a.example.jp --cert /etc/cert.pem", `tls.cert: "/etc/cert.pem": needs tls.key`},
		{"--contact x --address http://a.example.jp --set publish.windw=always", "there is no key publish.windw; did you mean publish.window?"},
		{"--contact x --address http://a.example.jp --set publish=always", `publish: "always": is a section; want keys of it, such as publish.window`},
		{"--contact x --address http://a.example.jp --set poll=3", `poll: "3": want a duration`},
		{"--contact x --address http://a.example.jp --operator Sato", `name "Sato"`},
	} {
		dir := t.TempDir()
		_, err := setUp(t, append(strings.Fields(c.args), "--config", filepath.Join(dir, "sheaf.yaml"), "--data", filepath.Join(dir, "data"), "--release-key", "none")...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "sheaf.yaml*")); left != nil {
			t.Errorf("%s leaves %s", c.args, left)
		}
	}
}

// TestSetupAsks: what no flag gives is asked for, and an empty answer takes what is shown.
func TestSetupAsks(t *testing.T) {
	cmd := setupCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	testkit.Must(t, cmd.ParseFlags([]string{"--name", "Given"}))
	s := setup{name: "Given", store: "fs", operator: "admin"}
	testkit.Must(t, s.ask(cmd, strings.NewReader("http://a.example.jp:8080\nops@example.jp\n\nsato\n")))
	if s.name != "Given" || s.address != "http://a.example.jp:8080" || s.contact != "ops@example.jp" || s.store != "fs" || s.operator != "sato" {
		t.Errorf("the answers are %+v; asked was %s", s, &out)
	}
	if err := s.ask(cmd, strings.NewReader("http://a.example.jp:8080\n")); err == nil {
		t.Error("answers that end early are taken")
	}
}
