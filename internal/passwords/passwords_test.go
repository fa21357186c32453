package passwords

import (
	"strings"
	"testing"
)

func TestPassword(t *testing.T) {
	phc := DefaultCost.Hash("secret")
	if !strings.HasPrefix(phc, "$argon2id$v=19$m=19456,t=2,p=1$") || strings.Contains(phc, "secret") {
		t.Error(phc)
	}
	if phc == DefaultCost.Hash("secret") {
		t.Error("two hashes with one salt")
	}
	for password, want := range map[string]bool{"secret": true, "Secret": false, "": false} {
		if ok, err := matches(phc, password); ok != want || err != nil {
			t.Errorf("%q: %v, %v", password, ok, err)
		}
	}
	if ok, err := matches((Cost{Memory: 64, Passes: 1}).Hash("secret"), "secret"); !ok || err != nil {
		t.Errorf("a hash of another cost: %v, %v", ok, err)
	}
	for _, bad := range []string{
		"", "secret", "$argon2i$v=19$m=8,t=1,p=1$c2FsdA$a2V5", "$argon2id$v=19$m=8,t=0,p=1$c2FsdA$a2V5",
		"$argon2id$v=19$m=999999999,t=1,p=1$c2FsdA$a2V5", "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$", "$argon2id$v=19$m=8,t=1,p=1$!$a2V5",
	} {
		if ok, err := matches(bad, "secret"); ok || err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestDecoy: a name that nobody has takes as long to refuse as a wrong password, and no password
// fits.
func TestDecoy(t *testing.T) {
	decoy, real := strings.Split(DefaultCost.decoy(), "$"), strings.Split(DefaultCost.Hash(""), "$")
	if len(decoy) != len(real) || strings.Join(decoy[:4], "$") != strings.Join(real[:4], "$") || len(decoy[4]) != len(real[4]) || len(decoy[5]) != len(real[5]) {
		t.Errorf("decoy %q has another cost than %q", decoy, real)
	}
	if ok, err := matches(DefaultCost.decoy(), ""); ok || err != nil {
		t.Errorf("the empty password: %t, %v", ok, err)
	}
}
