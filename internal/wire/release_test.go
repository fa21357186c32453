package wire_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"sheaf/internal/wire"
)

var now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func sample() *wire.Release {
	return &wire.Release{Counter: 7, Version: "0.2.0", Expires: now.AddDate(0, 3, 0), Floor: 3, Files: []wire.ReleaseFile{
		{Platform: "linux-amd64", Size: 12, SHA256: strings.Repeat("0a", 32)},
		{Platform: "linux-arm64", Size: 34, SHA256: strings.Repeat("1b", 32)},
	}}
}

func keys(t *testing.T) (minisign.PublicKey, minisign.PrivateKey) {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func TestOpenRelease(t *testing.T) {
	public, private := keys(t)
	_, other := keys(t)
	text, err := sample().Format()
	if err != nil {
		t.Fatal(err)
	}
	signature := minisign.Sign(private, text)
	got, err := wire.OpenRelease(text, signature, public, now)
	if err != nil || !reflect.DeepEqual(got, sample()) {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := wire.OpenRelease(text, minisign.Sign(other, text), public, now); !errors.Is(err, wire.ErrReleaseSignature) {
		t.Errorf("another's signature: %v", err)
	}
	if _, err := wire.OpenRelease([]byte(strings.Replace(string(text), "counter 7", "counter 9", 1)), signature, public, now); !errors.Is(err, wire.ErrReleaseSignature) {
		t.Errorf("changed text: %v", err)
	}
	if _, err := wire.OpenRelease(text, signature, public, sample().Expires); !errors.Is(err, wire.ErrExpired) {
		t.Errorf("expired: %v", err)
	}
}

// TestParseIsStrict: robots and shell scripts cannot read the signed text differently.
func TestParseIsStrict(t *testing.T) {
	text, err := sample().Format()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"title":             {"sheaf robotd release", "something else"},
		"second counter":    {"counter 7\n", "counter 8\ncounter 7\n"},
		"unknown line":      {"floor 3\n", "floor 3\nrun rm\n"},
		"leading zero":      {"counter 7", "counter 07"},
		"no counter":        {"counter 7\n", ""},
		"floor above it":    {"floor 3", "floor 8"},
		"platform as path":  {"linux-amd64", "../linux-amd64"},
		"upper-case digest": {"0a0a", "0A0A"},
		"one twice":         {"linux-arm64", "linux-amd64"},
		"local time":        {"Z\n", "+09:00\n"},
		"no end of line":    {"1b1b\n", "1b1b"},
		"CRLF":              {"\n", "\r\n"},
	} {
		changed := strings.Replace(string(text), change[0], change[1], 1)
		if changed == string(text) {
			t.Fatalf("%s: the change does not apply", name)
		}
		if r, err := wire.ParseRelease([]byte(changed)); err == nil {
			t.Errorf("%s: taken as %+v", name, r)
		}
	}
}
