package settings_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sheaf/internal/display"
	"sheaf/internal/settings"
	"sheaf/internal/testkit"
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

// TestDefaults shows that a text must have each key, and no other.
func TestDefaults(t *testing.T) {
	type small struct {
		Poll  time.Duration `mapstructure:"poll"`
		Names []string      `mapstructure:"names"`
		Fixed int           `mapstructure:"-"`
	}
	s := small{Fixed: 7}
	settings.Defaults(&s, "poll: 1m # between two looks\nnames: [a, b]\n")
	if want := (small{time.Minute, []string{"a", "b"}, 7}); !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, want %+v", s, want)
	}
	for text, says := range map[string]string{"poll: 1m": "names", "poll: 1m\nnames: []\ncolour: red": "colour", "poll: 1\nnames: []": "poll"} {
		func() {
			defer func() {
				if why := fmt.Sprint(recover()); !strings.Contains(why, says) {
					t.Errorf("%q: %s, want a word on %s", text, why, says)
				}
			}()
			settings.Defaults(&small{}, text)
		}()
	}
}

// TestFields shows what want tags mean.
func TestFields(t *testing.T) {
	type wants struct {
		Above   int64         `mapstructure:"above" want:"above 1KiB"`
		Least   time.Duration `mapstructure:"least" want:"at least 1s"`
		Between int           `mapstructure:"between" want:"1 to 9"`
		One     string        `mapstructure:"one" want:"red, green or blue"`
		Listen  string        `mapstructure:"listen" want:"host:port"`
		Public  string        `mapstructure:"public" want:"http or https URL, or nothing"`
	}
	good := wants{1025, time.Second, 9, "green", ":80", ""}
	for key, change := range map[string]func(*wants){
		"":        func(w *wants) { w.Between, w.Listen, w.Public = 1, "[::1]:0", "https://a.example.jp/x" },
		"above":   func(w *wants) { w.Above = 1024 },
		"least":   func(w *wants) { w.Least-- },
		"between": func(w *wants) { w.Between = 10 },
		"one":     func(w *wants) { w.One = "" },
		"listen":  func(w *wants) { w.Listen = "" },
		"public":  func(w *wants) { w.Public = "ftp://a.example.jp" },
	} {
		w := good
		change(&w)
		var is settings.Checks
		is.Fields(&w)
		if err := is.Err(); (err == nil) != (key == "") || err != nil && (strings.Count(err.Error(), "\n") > 0 || !strings.HasPrefix(err.Error(), "settings: "+key+": ")) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// A port is a number that there can be. Of any other, a server would say at its start only that it
// cannot listen.
func TestIsAddress(t *testing.T) {
	for text, want := range map[string]bool{
		":80": true, "[::1]:0": true, "a.example.jp:65535": true,
		":65536": false, ":70000": false, ":-1": false, ":http": false, ":": false, "a.example.jp": false, "": false,
	} {
		if got := settings.IsAddress(text); got != want {
			t.Errorf("IsAddress(%q) is %v", text, got)
		}
	}
}

// TestReadEnvironment: the file of the package's unit is read as systemd reads it.
func TestReadEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "environment")
	testkit.Must(t, os.WriteFile(file, []byte("# secrets\n; more\n\nSHEAF_STORE_ACCESS_KEY=abc\n SHEAF_STORE_SECRET_KEY = \"a=b c\"\nSHEAF_DATABASE_SEAL='0f'\nnothing\nEMPTY=\n"), 0o600))
	want := map[string]string{"SHEAF_STORE_ACCESS_KEY": "abc", "SHEAF_STORE_SECRET_KEY": "a=b c", "SHEAF_DATABASE_SEAL": "0f", "EMPTY": ""}
	if got, err := settings.ReadEnvironment(file); err != nil || !maps.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestParse shows that sizes are read as people write them, and that others are refused.
func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "64KiB": 64 << 10, "64 KiB": 64 << 10, "1.5MiB": 3 << 19, "2GiB": 2 << 30, "1TiB": 1 << 40,
		"9007199254740993": 9007199254740993, // which no float64 is
		"":                 -1, "-1": -1, "1MB": -1, "much": -1, "NaN": -1, "Inf": -1, "KiB": -1, "9223372036854775807": -1, "99999999TiB": -1,
	} {
		n, err := display.ParseBytes(text)
		if err != nil {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %d, %v; want %d", text, n, err, want)
		}
		if err != nil {
			continue
		}
		if again, err := display.ParseBytes(display.FormatBytes(n)); again != n || err != nil {
			t.Errorf("%d is formatted as %s, which is %d, %v", n, display.FormatBytes(n), again, err)
		}
	}
}
