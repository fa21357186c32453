package client

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// testKey returns the n-th key of a service. It is the same in each call.
func testKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) ed25519.PublicKey { return testKey(n).Public().(ed25519.PublicKey) }

// statement is the service's word that key n comes after key n-1.
func statement(n byte, proven bool) wire.KeyStatement {
	s := wire.StateNextKey(int64(n), public(n), testKey(n-1))
	if proven {
		s.Prove(testKey(n))
	}
	return *s
}

// joined returns a robot that has joined when the service had the n-th key. A robot whose program
// was too old to be told the number has number 0.
func joined(t testing.TB, n byte, number int64) (id *Identity, dir string) {
	dir = t.TempDir()
	id = &Identity{JoinResponse: wire.JoinResponse{Robot: "r1", Secret: "s", ServerKey: public(n), KeyNumber: number}}
	testkit.Must(t, id.save(dir))
	_, err := makeKey(dir)
	testkit.Must(t, err)
	return id, dir
}

func wantKeys(t *testing.T, what string, id *Identity, want ...byte) {
	t.Helper()
	var keys []ed25519.PublicKey
	for _, n := range want {
		keys = append(keys, public(n))
	}
	if got := id.ServiceKeys(); !reflect.DeepEqual(got, keys) {
		t.Errorf("%s: the robot knows %x; want the keys %v: %x", what, got, want, keys)
	}
}

// A robot follows each rotation, takes what either key has signed while the service changes over
// and for KeyOverlap after that, and knows all of it after a restart.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		id, dir := joined(t, 1, 0)
		for _, step := range []struct {
			what       string
			after      time.Duration
			statements []wire.KeyStatement
			changed    bool
			want       []byte
		}{
			{"nothing is new", 0, nil, false, []byte{1}},
			{"key 2 is made", 0, []wire.KeyStatement{statement(2, false)}, true, []byte{2, 1}},
			{"again", 0, []wire.KeyStatement{statement(2, false)}, false, []byte{2, 1}},
			{"a year later", 365 * 24 * time.Hour, nil, false, []byte{2, 1}},
			{"key 2 is in use", 0, []wire.KeyStatement{statement(2, true)}, true, []byte{2, 1}},
			{"after the overlap", KeyOverlap, []wire.KeyStatement{statement(2, true)}, false, []byte{2}},
			{"key 3 is made", 0, []wire.KeyStatement{statement(2, true), statement(3, false)}, true, []byte{3, 2}},
			{"two rotations later", 0, []wire.KeyStatement{statement(3, true), statement(4, true), statement(5, false)}, true, []byte{5, 4, 3}},
			{"after the overlap", KeyOverlap, nil, false, []byte{5, 4}},
		} {
			time.Sleep(step.after)
			if changed, err := id.Follow(dir, step.statements); err != nil || changed != step.changed {
				t.Fatalf("%s: changed %v, %v", step.what, changed, err)
			}
			wantKeys(t, step.what, id, step.want...)
			again, err := LoadIdentity(dir)
			testkit.Must(t, err)
			wantKeys(t, step.what+", after a restart", again, step.want...)
		}
	})
}

// Nothing that the pinned key has not signed as the next statement changes what a robot trusts.
func TestFalseStatements(t *testing.T) {
	t.Parallel()
	forge := func(change func(*wire.KeyStatement)) []wire.KeyStatement {
		s := statement(3, true)
		change(&s)
		return []wire.KeyStatement{s}
	}
	for what, statements := range map[string][]wire.KeyStatement{
		"forged":                   forge(func(s *wire.KeyStatement) { s.Signature[0] ^= 1 }),
		"of another key":           forge(func(s *wire.KeyStatement) { s.Key = public(9) }),
		"of another number":        forge(func(s *wire.KeyStatement) { s.Number = 4 }),
		"signed by itself":         forge(func(s *wire.KeyStatement) { *s = *wire.StateNextKey(3, public(3), testKey(3)) }),
		"of another service":       forge(func(s *wire.KeyStatement) { *s = *wire.StateNextKey(3, public(3), testKey(7)) }),
		"unsigned":                 forge(func(s *wire.KeyStatement) { s.Signature = nil }),
		"a short key":              forge(func(s *wire.KeyStatement) { s.Key = s.Key[:31] }),
		"another proof":            forge(func(s *wire.KeyStatement) { s.Proof = ed25519.Sign(testKey(2), []byte("x")) }),
		"the statement as a proof": forge(func(s *wire.KeyStatement) { s.Proof = s.Signature }),
		"replayed":                 {statement(1, true)},
		"one left out":             {statement(4, true)},
		"in the wrong order":       {statement(4, true), statement(3, true)},
		"a right and a forged one": {statement(3, true), *wire.StateNextKey(4, public(4), testKey(7))},
	} {
		for _, number := range []int64{0, 2} {
			id, dir := joined(t, 2, number)
			was, err := os.ReadFile(filepath.Join(dir, File))
			testkit.Must(t, err)
			if changed, err := id.Follow(dir, statements); changed || err == nil {
				t.Errorf("%s, number %d: taken (%v)", what, number, err)
			}
			wantKeys(t, what, id, 2)
			if kept, err := os.ReadFile(filepath.Join(dir, File)); err != nil || !bytes.Equal(kept, was) {
				t.Errorf("%s, number %d: the file has changed: %v", what, number, err)
			}
		}
	}
	id, dir := joined(t, 2, 2)
	if _, err := id.Follow(dir, []wire.KeyStatement{*wire.StateNextKey(3, public(3), testKey(7))}); !errors.Is(err, wire.ErrSignature) || !strings.Contains(err.Error(), "key 3") {
		t.Errorf("the error is %v", err)
	}
}

// A robot whose disk does not keep a new key goes on with the old one only.
func TestFollowIsDurable(t *testing.T) {
	t.Parallel()
	id, _ := joined(t, 1, 1)
	if changed, err := id.Follow(filepath.Join(t.TempDir(), "gone"), []wire.KeyStatement{statement(2, true)}); changed || err == nil {
		t.Errorf("followed without a disk: %v", err)
	}
	wantKeys(t, "without a disk", id, 1)
}

// FuzzFollow parses arbitrary bytes as statements. A robot only follows those that its key signed.
func FuzzFollow(f *testing.F) {
	for _, chain := range [][]wire.KeyStatement{{statement(2, false)}, {statement(2, true), statement(3, true)}, {statement(3, true)}} {
		text, err := json.Marshal(wire.KeyChain{Statements: chain})
		testkit.Must(f, err)
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		var chain wire.KeyChain
		if json.Unmarshal(text, &chain) != nil {
			return
		}
		id := &Identity{JoinResponse: wire.JoinResponse{Robot: "r1", Secret: "s", ServerKey: public(1), KeyNumber: 1}}
		changed, err := id.Follow(dir, chain.Statements)
		if changed && err != nil {
			t.Fatalf("changed, and failed: %v", err)
		}
		for _, key := range id.ServiceKeys() {
			if !key.Equal(public(1)) && !key.Equal(public(2)) && !key.Equal(public(3)) {
				t.Fatalf("took %x by %s", key, text)
			}
		}
	})
}
