package service

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

func TestBadSettingsNameKeyAndValue(t *testing.T) {
	for _, c := range []struct{ yaml, key, value string }{
		{"zone: Mars/Olympus", "zone", "Mars/Olympus"},
		{"publish: {window: '25:00-26:00'}", "publish.window", "25:00-26:00"},
		{"http: {listen: nowhere}", "http.listen", "nowhere"},
		{"http: {proxies: [proxy.example.jp]}", "http.proxies", "proxy.example.jp"},
		{"drop: {proxies: [192.0.2.0/33]}", "drop.proxies", "192.0.2.0/33"},
		{"download: {ports: [9, 1]}", "download.ports", "[9 1]"},
		{"drop: {public: 2001:db8::1}", "drop.public", "2001:db8::1"},
		{"poll: -1s", "poll", "-1s"},
		{"access: {contact: ops@example.jp}", "access.contact", "ops@example.jp"},
		{"{http: {listen: ':80'}, watch: {mail: {server: 'mail.waseda.ac.jp:25', from: a@waseda.ac.jp}}}", "watch.mail.server", "needs http.public"},
		{"{http: {listen: ':80'}, login: {oidc: {issuer: 'https://login.waseda.ac.jp'}}}", "login.oidc.issuer", "needs http.public"},
		{"packs: {below: 1MB}", "packs.below", "1MB"},
		{"packs: {below: 1GiB}", "packs.below", "1073741824"},
		{"packs: {below: -1}", "packs.below", "-1"},
		{"stop: soon", "stop", "soon"},
		{"uploads: {full: 101}", "uploads.full", "101"},
		{"uploads: {full: 19}", "uploads.full", "want 20 to 100"},
		{"uploads: {accepted: bucket}", "uploads.accepted", "bucket"},
		{"store: {kind: floppy}", "store.kind", "floppy"},
		{"store: {bucket: b}", "store.kind", "fs"},
		{"store: {kind: s3, bucket: b, endpoint: 's3.example.jp'}", "store.endpoint", "s3.example.jp"},
		{"store: {kind: s3, bucket: b, endpoint: 'http://s3', public: files.example.jp}", "store.public", "files.example.jp"},
		{"store: {public: 'https://files.example.jp'}", "store.kind", "fs"},
		{"http: {redirect: {at: 64MiB}}", "http.redirect.at", "67108864"},
		{"store: {kind: s3, endpoint: 'http://localhost'}", "store.bucket", `""`},
		{"store: {kind: s3, endpoint: 'http://localhost', bucket: b, prefix: a//b}", "store.prefix", "a//b"},
		{"store: {kind: s3, endpoint: 'http://localhost', bucket: b, access_key: me}", "store.access_key", "me"},
		{"store: {kind: s3, endpoint: 'http://localhost', bucket: b, access_key: me, secret_key: x, secret_key_file: f}", "store.secret_key_file", "f"},
		{"store: {scrub: {rate: 0}}", "store.scrub.rate", "want above 0"},
		{"database: {url: 'mysql://localhost/sheaf'}", "database.url", "postgres://"},
		{"lease: {kind: luck}", "lease.kind", "luck"},
		{"lease: {ttl: 1s}", "lease.ttl", "1s"},
		{"lease: {kind: quorum}", "lease.quorum.members", "[]"},
		{"lease: {quorum: {members: ['localhost:9466']}}", "lease.kind", "database"},
		{"lease: {kind: quorum, quorum: {members: [localhost]}}", "lease.quorum.members", "localhost"},
		{"lease: {kind: quorum, quorum: {members: ['localhost:9466'], secret: short}}", "lease.quorum.secret", "5 characters"},
		{"lease: {kind: quorum, quorum: {members: ['localhost:9466'], address: 'localhost:9466'}}", "lease.quorum.address", "lease.quorum.listen"},
		{"tls: {key: a.pem}", "tls.cert", "tls.key"},
		{"tls: {acme: {names: ['*.example.jp']}}", "tls.acme.names", "*.example.jp"},
		{"tls: {cert: a, key: b, acme: {names: [archive.example.jp]}}", "tls.acme.names", "tls.cert"},
		{"tls: {acme: {directory: 'http://acme.example.jp/dir'}}", "tls.acme.directory", "https"},
		{"tls: {hsts: -1s}", "tls.hsts", "-1s"},
		{"download: {implicit: ':990'}", "download.implicit", "tls.cert"},
		{"download: {listen: '', implicit: ':990', cert: a, key: b}", "download.implicit", "download.listen"},
		{"replay: {origin: replay.example.jp}", "replay.origin", "replay.example.jp"},
		{"replay: {origin: 'https://replay.example.jp/web'}", "replay.origin", "/web"},
		{"{http: {public: 'https://a.example.jp'}, replay: {origin: 'https://A.example.jp:443/'}}", "replay.origin", "http.public"},
		{"database: {wait: -1s}", "database.wait", "-1s"},
		{"metrics: 9465", "metrics", "host:port, or nothing"},
		{"http: {public: archive.example.jp}", "http.public", "http or https URL, or nothing"},
		{"watch: {mail: {tls: ssl}}", "watch.mail.tls", "starttls, tls or none"},
		{"balance: {at: '25:00'}", "balance.at", "25:00"},
		{"balance: {lease: 5m}", "balance.lease", "5m"},
		{"log: {format: xml}", "log.format", "text or json"},
		{"import: {max_bytes: 0}", "import.max_bytes", "0"},
		{"import: {max_bytes: much}", "import.max_bytes", "much"},
		{"import: {max_entries: -1}", "import.max_entries", "-1"},
		{"colour: red", "colour", ""},
	} {
		file := filepath.Join(t.TempDir(), "sheaf.yaml")
		if err := os.WriteFile(file, []byte(c.yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(file, nil)
		if err == nil || !strings.Contains(err.Error(), c.key) || !strings.Contains(err.Error(), c.value) {
			t.Errorf("%s: error %v names not key %s and value %s", c.yaml, err, c.key, c.value)
		}
	}
}

// A settings file that is cut off somewhere, as by an editor or a full disk, is refused by its
// name, or by the setting that is cut, where it is not a whole file by chance.
func TestHalfWrittenSettings(t *testing.T) {
	testkit.Slow(t)
	whole, err := os.ReadFile("../../../deploy/sheaf.yaml")
	testkit.Must(t, err)
	file := filepath.Join(t.TempDir(), "sheaf.yaml")
	refused := 0
	for n := 1; n < len(whole); n += 97 {
		testkit.Must(t, os.WriteFile(file, whole[:n], 0o600))
		_, err := Load(file, nil)
		if err == nil {
			continue
		}
		refused++
		if text := err.Error(); !strings.HasPrefix(text, "settings: ") {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	if refused < 5 {
		t.Errorf("%d of the cut files were refused", refused)
	}
	for text, says := range map[string]string{
		"http: {listen: 127.0.0.1:1":                           file, // a brace is missing
		"http:\n  listen: \"127.0.0.1:1\n":                     file, // a quote is missing
		"publish:\n  window: 12:00-\n":                         "publish.window",
		"http:\n  cert: /etc/sheaf/cert.pem\n":                 "http.key", // the next line has not come
		"store:\n  kind: s3\n  endpoint: http://127.0.0.1:1\n": "store.bucket",
		"http:\n  listen":                                      "http",
	} {
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
		if _, err := Load(file, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error that names %s", text, err, says)
		}
	}
}

func TestEnvironmentAndOverrides(t *testing.T) {
	t.Setenv("SHEAF_HTTP_LISTEN", "127.0.0.1:1")
	t.Setenv("SHEAF_HOSTS_SUFFIXES", "jp,test")
	t.Setenv("SHEAF_PACKS_BELOW", "64KiB")
	c, err := Load("", map[string]any{"publish.window": "always"})
	if err != nil {
		t.Fatal(err)
	}
	if c.HTTP.Listen != "127.0.0.1:1" || !reflect.DeepEqual(c.Manager.Hosts.Accept, []string{"jp", "test"}) || c.Ingest.Publish.Window != "always" || c.Ingest.Packs.Below != 64<<10 {
		t.Errorf("%+v", c)
	}
}
