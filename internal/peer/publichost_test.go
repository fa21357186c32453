package peer_test

import (
	"testing"

	"sheaf/internal/peer"
)

func TestIsPublicHost(t *testing.T) {
	for host, want := range map[string]bool{
		"www.example.jp": true, "www.example.jp.": true, "www.example.jp:8080": true, "localhost.example.jp": true, "notlocal": false, "www.notlocal.jp": true,
		"192.0.32.7": true, "192.0.32.7:81": true, "[2606:4700::1111]:80": true, "2606:4700::1111": true, "": false,
		"localhost": false, "localhost:8080": false, "a.localhost": false, "localhost.": false, "printer.local": false, "nas.home.arpa": false, "wiki.internal": false,
		"wiki.corp:8080": false, "intranet": false, "127.0.0.1": false, "127.0.0.1:8080": false, "10.1.2.3": false, "192.168.1.1": false, "169.254.169.254": false,
		"[::1]": false, "[::1]:80": false, "[fc00::1]": false, "::1": false, "0x7f.1:99": false, "127.1": false, "[::ffff:10.0.0.1]:80": false,
	} {
		if got := peer.IsPublicHost(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}
