package main

import (
	"os"
	"path/filepath"
	"reflect"
	"sheaf/robotd/config"
	"strings"
	"testing"
)

// TestExampleSettings holds deploy/robotd.yaml against the program: every setting in it
// is known and stands there with its default.
func TestExampleSettings(t *testing.T) {
	text, err := os.ReadFile("../../deploy/robotd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Contact = "https://robots.waseda.ac.jp/"
	file := filepath.Join(t.TempDir(), "robotd.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), `contact: ""`, "contact: "+want.Contact, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	// Empty maps and lists stand in the file to show their form.
	if len(got.Network.Hosts)+len(got.NotBetween)+len(got.Network.Ranges) == 0 {
		got.Network.Hosts, got.NotBetween, got.Network.Ranges = nil, nil, nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("deploy/robotd.yaml gives\n%+v, the defaults are\n%+v", got, want)
	}
}
