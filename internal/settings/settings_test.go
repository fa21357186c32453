package settings_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sheaf/internal/settings"
)

type listener struct {
	Listen string `mapstructure:"listen"`
	Ports  []int  `mapstructure:"ports"`
}

type config struct {
	Data    string        `mapstructure:"data"`
	Poll    time.Duration `mapstructure:"poll"`
	Size    int64         `mapstructure:"size"`
	Number  int           `mapstructure:"number"`
	Once    bool          `mapstructure:"once"`
	Publish struct {
		Window string `mapstructure:"window"`
	} `mapstructure:"publish"`
	Drop struct {
		listener `mapstructure:",squash"`
		Quiet    time.Duration `mapstructure:"quiet"`
	} `mapstructure:"drop"`
	Network struct {
		Hosts map[string]string `mapstructure:"hosts"`
		Names []string          `mapstructure:"names"`
		Proxy string            `mapstructure:"proxy"`
	} `mapstructure:"network"`
}

// load loads settings over some defaults.
func load(t *testing.T, yaml string, overrides map[string]any) (config, error) {
	t.Helper()
	c := config{Data: "data", Poll: time.Minute, Number: 1}
	c.Network.Names = []string{"a", "b", "c"}
	file := filepath.Join(t.TempDir(), "settings")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return c, settings.Load(&c, settings.Source{File: file, Prefix: "TEST", Overrides: overrides})
}

// TestLoad shows which source comes before which, and how values are written in each.
func TestLoad(t *testing.T) {
	t.Setenv("TEST_SIZE", "64KiB")
	t.Setenv("TEST_NUMBER", "3")
	t.Setenv("TEST_NETWORK_HOSTS", "www.a.test=127.0.0.1:80 b.test=::1")
	t.Setenv("TEST_DROP_PORTS", "1,2")
	want := config{Data: "data", Poll: time.Hour, Size: 64 << 10, Number: 4, Once: true}
	want.Network.Hosts = map[string]string{"www.a.test": "127.0.0.1:80", "b.test": "::1"}
	want.Network.Names, want.Drop.Ports = []string{"x", "y"}, []int{1, 2}
	c := config{Data: "data", Poll: time.Minute, Number: 1}
	c.Network.Names = []string{"a", "b", "c"}
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("poll: 1h\nsize: 2MiB\nnumber: 2\nonce: true\nnetwork: {names: [x, y]}\ndrop: {quiet: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := settings.Load(&c, settings.Source{File: file, Prefix: "TEST", Overrides: map[string]any{"number": "4"}})
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, %v, want %+v", c, err, want)
	}
	if c, err := load(t, "network: {hosts: {www.b.test: 127.0.0.2}}", nil); err != nil || c.Poll != time.Minute {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestUnknownKeys shows that a mistyped key is named, with the one that was meant.
func TestUnknownKeys(t *testing.T) {
	for given, want := range map[string]string{
		"data":                      "",
		"Publish.Window":            "",
		"network.hosts.name":        "",
		"drop.listen":               "",
		"publsh.window":             "no key publsh.window; did you mean publish.window?",
		"window":                    "no key window; did you mean publish.window?",
		"network.proxi":             "no key network.proxi; did you mean network.proxy?",
		"dta":                       "no key dta; did you mean data?",
		"something.else.altogether": "no key something.else.altogether",
		"network.hostsx.name.xx":    "no key network.hostsx.name.xx",
	} {
		_, err := load(t, "", map[string]any{given: "x"})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", given, err)
		case want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)):
			t.Errorf("%s: %v, want … %s", given, err, want)
		}
	}
}

// TestWrongValues shows that all errors are reported at once, each with its key and value.
func TestWrongValues(t *testing.T) {
	c, err := load(t, "poll: 30\nsize: 1MB\nnumber: many\nonce: perhaps\ndata: [1]\ndrop: {quiet: soon}\nnetwork: {names: {a: b}, hosts: x}\ndta: x\nwndow: x\n", nil)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		`poll: "30": want a duration`, `size: "1MB": want a number of bytes`, `number: "many": want a number`, `once: "perhaps": want true or false`,
		`data: "[1]": want a text`, `drop.quiet: "soon": want a duration`, `network.hosts: "x": want a map`, "no key dta", "no key wndow",
	} {
		if !strings.Contains(err.Error(), "settings: "+want) && !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if c.Data != "data" || c.Poll != time.Minute || c.Number != 1 {
		t.Errorf("the defaults are gone: %+v", c)
	}
}
