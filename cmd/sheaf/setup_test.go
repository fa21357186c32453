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
		"--contact", "ops@archive.example.ac.jp", "--operator", "sato", "--set", "publish.window=always"}
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
		{"--contact a@waseda.ac.jp", "--address is missing"},
		{"--address http://a.example.jp", "--contact is missing"},
		{"--address http://a.example.jp --contact ops@example.jp", "--contact: it is a placeholder"},
		{"--address http://a.example.jp --contact https://www.example.com/", "--contact: it is a placeholder"},
		{"--contact a@waseda.ac.jp --address http://a.example.jp --set access.contact=ops@example.org", `access.contact: "ops@example.org": it is a placeholder`},
		{"--contact a@waseda.ac.jp --address archive.example.jp", `--address: "archive.example.jp": want a URL`},
		{"--contact a@waseda.ac.jp --address http://a.example.jp --store s3", `--store: "s3": want fs, or a bucket`},
		{"--contact a@waseda.ac.jp --address http://a.example.jp --store https://u:p@s3.example.jp/b", "without credentials"},
		{"--contact a@waseda.ac.jp --address http://a.example.jp --store https://s3.example.jp", `store.bucket: "": want a bucket's name`},
		{"--contact a@waseda.ac.jp --address https://a.example.jp --cert /etc/cert.pem", `tls.cert: "/etc/cert.pem": needs tls.key`},
		{"--contact a@waseda.ac.jp --address http://a.example.jp --set publish.windw=always", "there is no key publish.windw; did you mean publish.window?"},
		{"--contact a@waseda.ac.jp --address http://a.example.jp --set publish=always", `publish: "always": is a section; want keys of it, such as publish.window`},
		{"--contact a@waseda.ac.jp --address http://a.example.jp --set http=:80", `http: ":80": is a section; want keys of it, such as http.listen`},
		{"--contact a@waseda.ac.jp --address http://a.example.jp --set poll=3", `poll: "3": want a duration`},
		{"--contact a@waseda.ac.jp --address http://a.example.jp --operator Sato", `name "Sato"`},
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

// TestSetupAsks: what no flag gives is asked for, and an empty answer takes what is shown. A wrong
// answer is asked for again; if nothing can be made, the next questions show what was answered.
func TestSetupAsks(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken") // a file, where the data directory would be
	testkit.Must(t, os.WriteFile(taken, nil, 0o600))
	cmd := setupCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetContext(t.Context())
	testkit.Must(t, cmd.ParseFlags([]string{"--name", "Given"}))
	s := setup{name: "Given", store: "fs", operator: "admin", data: taken, config: filepath.Join(dir, "sheaf.yaml"), releaseKey: "none"}
	err := s.converse(cmd, strings.NewReader("a.waseda.ac.jp\nhttp://a.waseda.ac.jp:8080\nops@example.jp\nops@waseda.ac.jp\n\nSato\nsato\n"))
	if err == nil || s.name != "Given" || s.address != "http://a.waseda.ac.jp:8080" || s.contact != "ops@waseda.ac.jp" || s.store != "fs" || s.operator != "sato" {
		t.Errorf("the answers are %+v; asked was %s", s, &out)
	}
	for _, want := range []string{`"a.waseda.ac.jp": want a URL`, "it is a placeholder", `name "Sato"`, "Nothing was set up", "reach it [http://a.waseda.ac.jp:8080]"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, &out)
		}
	}
	s.data = filepath.Join(dir, "data")
	testkit.Must(t, s.converse(cmd, strings.NewReader("\n\n\n\n")))
	if _, err := os.Stat(s.config); err != nil {
		t.Errorf("nothing was made: %s", &out)
	}
}

// TestSetupOpensFTP: where others reach the service, they reach FTP too, or are told that they do
// not; what --set says comes first.
func TestSetupOpensFTP(t *testing.T) {
	const alone = "for this machine alone"
	for _, c := range []struct{ args, listen, says string }{
		{"--address http://archive.waseda.ac.jp:8080", ":2121", "Readers find FTP at ftp://archive.waseda.ac.jp:2121/. A firewall must also let ports 50000 to 50999 through"},
		{"--address http://192.0.2.7", ":2121", "ftp://192.0.2.7:2121/"},
		{"--address https://archive.waseda.ac.jp", "127.0.0.1:2121", alone}, // a proxy takes it
		{"--address http://localhost:8080", "127.0.0.1:2121", alone},
		{"--address https://archive.waseda.ac.jp --set download.listen=0.0.0.0:21", "0.0.0.0:21", "ftp://archive.waseda.ac.jp:21/"},
		{"--address http://archive.waseda.ac.jp --set download.listen=127.0.0.1:21", "127.0.0.1:21", alone},
	} {
		dir := t.TempDir()
		config := filepath.Join(dir, "sheaf.yaml")
		out, err := setUp(t, append(strings.Fields(c.args), "--contact", "ops@waseda.ac.jp", "--config", config, "--data", filepath.Join(dir, "data"), "--release-key", "none")...)
		testkit.Must(t, err)
		cfg, err := service.Load(config, nil)
		testkit.Must(t, err)
		if cfg.Download.Listen != c.listen || !strings.Contains(out, c.says) {
			t.Errorf("%s: FTP at %s\n%s", c.args, cfg.Download.Listen, out)
		}
	}
}
