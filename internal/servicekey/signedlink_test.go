package servicekey_test

import (
	"crypto/ed25519"
	"testing"

	"sheaf/internal/servicekey"
)

// A signature is good for the same parts, purpose and key only.
func TestSignedLink(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	other := ed25519.NewKeyFromSeed([]byte("0123456789abcdef0123456789abcdef"))
	s := servicekey.NewLinkSigner(key, "robot")
	good := s.Sign("waseda", "1")
	if len(good) != 26 || !s.Check(good, "waseda", "1") || !servicekey.NewLinkSigner(key, "robot").Check(good, "waseda", "1") {
		t.Errorf("%q is not good", good)
	}
	for name, bad := range map[string]bool{
		"other part": s.Check(good, "waseda", "2"), "parts cut elsewhere": s.Check(good, "waseda1", ""), "fewer": s.Check(good, "waseda"), "empty": s.Check("", "waseda", "1"),
		"other purpose": servicekey.NewLinkSigner(key, "removal").Check(good, "waseda", "1"), "other key": servicekey.NewLinkSigner(other, "robot").Check(good, "waseda", "1"),
		"longer": s.Check(good+"a", "waseda", "1"),
	} {
		if bad {
			t.Errorf("%s: the signature is taken", name)
		}
	}
}
