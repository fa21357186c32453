package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/settings"
	"sheaf/internal/testkit"
)

// doctor runs `sheaf doctor`.
func doctor(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(append([]string{"doctor"}, args...))
	root.SetOut(&out)
	root.SetErr(&out)
	testkit.Must(t, root.ExecuteContext(t.Context()))
	return out.String()
}

// checkDoctor asks a service that runs: its health, buffers, robots and transfers are told, and its
// token is not.
func checkDoctor(t *testing.T, url, data string) {
	t.Helper()
	token, err := service.ReadToken(data)
	testkit.Must(t, err)
	log := filepath.Join(t.TempDir(), "log")
	testkit.Must(t, os.WriteFile(log, []byte("level=INFO msg=quiet\nlevel=ERROR msg=loud token="+token+"\n"), 0o600))
	text := doctor(t, "--url", url, "--data", data, "--log", log)
	for _, want := range []string{`"status":"ok"`, `"buffers":`, `"robots":`, `"transfers":`, "msg=loud token=(secret)"} {
		if !strings.Contains(text, want) {
			t.Errorf("sheaf doctor has no %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, token) || strings.Contains(text, "msg=quiet") {
		t.Errorf("sheaf doctor tells too much:\n%s", text)
	}
}

// TestDoctorKeepsSecrets: no secret of the settings is told, neither among them nor in the log,
// also when no service answers.
func TestDoctorKeepsSecrets(t *testing.T) {
	dir := t.TempDir()
	config, log := filepath.Join(dir, "sheaf.yaml"), filepath.Join(dir, "log")
	testkit.Must(t, os.WriteFile(config, []byte(`
data: `+dir+`
database: {url: "postgres://sheaf:hidden-1@127.0.0.1:1/sheaf?sslpassword=hidden-2"}
store: {kind: s3, endpoint: "https://s3.example.jp", bucket: b, access_key: hidden-3, secret_key: hidden-4}
lease: {kind: quorum, quorum: {members: ["127.0.0.1:1"], secret: hidden-6-which-is-long-enough-for-all}}
login: {oidc: {issuer: "https://login.example.jp", client_id: sheaf, client_secret: hidden-7, rules: [{claim: email, value: "*@example.jp", account: readers}]}}
http: {listen: "127.0.0.1:1", public: "https://archive.example.jp"}
metrics: ""
`), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "operator.token"), []byte("hidden-8\n"), 0o600))
	testkit.Must(t, os.WriteFile(log, []byte("level=ERROR msg=failed err=\"hidden-4 hidden-6-which-is-long-enough-for-all hidden-8 postgres://sheaf:hidden-1@db\"\n"), 0o600))
	text := doctor(t, "--config", config, "--log", log)
	if strings.Contains(text, "hidden-") {
		t.Errorf("sheaf doctor tells secrets:\n%s", text)
	}
	for _, want := range []string{`store.endpoint: "https://s3.example.jp"`, "store.secret_key: (set)", "the service does not answer", "msg=failed"} {
		if !strings.Contains(text, want) {
			t.Errorf("sheaf doctor has no %s:\n%s", want, text)
		}
	}
}

// TestSecretSettings: each setting that is called like a secret is shown as one, so that a new one
// is not forgotten.
func TestSecretSettings(t *testing.T) {
	var cfg service.Config
	fill(reflect.ValueOf(&cfg).Elem())
	lines, secrets := settings.Show(&cfg)
	like := regexp.MustCompile(`(secret|password|_key|token)$`)
	for _, line := range lines {
		key, value, _ := strings.Cut(line, ": ")
		if like.MatchString(key) && value != "(set)" {
			t.Errorf("setting %s is shown", key)
		}
	}
	if len(secrets) == 0 {
		t.Error("there are no secrets among the settings")
	}
}

// fill sets every text in a struct.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			fill(f)
		case reflect.String:
			f.SetString("text")
		}
	}
}
