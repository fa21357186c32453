package settings

import (
	"reflect"
	"strings"
	"testing"
)

type config struct {
	Data    string `mapstructure:"data"`
	Publish struct {
		Window string `mapstructure:"window"`
	} `mapstructure:"publish"`
	Network struct {
		Hosts map[string]string `mapstructure:"hosts"`
		Proxy string            `mapstructure:"proxy"`
	} `mapstructure:"network"`
}

// TestCheckKeys shows that a mistyped key is named, with the one that was meant.
func TestCheckKeys(t *testing.T) {
	for given, want := range map[string]string{
		"data":                       "",
		"Publish.Window":             "",
		"network.hosts":              "",
		"network.hosts.www.a.jp":     "",
		"publsh.window":              "no key publsh.window; did you mean publish.window?",
		"window":                     "no key window; did you mean publish.window?",
		"network.proxi":              "no key network.proxi; did you mean network.proxy?",
		"dta":                        "no key dta; did you mean data?",
		"something.else.altogether":  "no key something.else.altogether",
		"network.hostsx.www.a.jp.xx": "no key network.hostsx.www.a.jp.xx",
	} {
		err := CheckKeys([]string{given}, reflect.TypeFor[config](), ".")
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", given, err)
		case want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)):
			t.Errorf("%s: %v, want … %s", given, err, want)
		}
	}
	if err := CheckKeys([]string{"dta", "wndow", "data"}, reflect.TypeFor[config](), "."); err == nil || strings.Count(err.Error(), "there is no key") != 2 {
		t.Errorf("%v; want both unknown keys named", err)
	}
}
