package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sheaf/robotd/config"
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
	got, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("deploy/robotd.yaml gives\n%+v, the defaults are\n%+v", got, want)
	}
}
