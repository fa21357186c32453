package robotd

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"aead.dev/minisign"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/client"
)

// keyAt returns the n-th key of a service.
func keyAt(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

// A robot that meets a signature of a key that it does not know asks for the statements that lead
// there, all the way. If there are none, it says what to do, and does not ask for each signature
// anew. If the manager does not answer, the signature is not called wrong.
func TestUnknownKeyIsAskedFor(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var chain []wire.KeyStatement
	away := false
	manager := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if away {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer := wire.KeyChain{Statements: []wire.KeyStatement{}}
		for i, s := range chain { // one at a time
			if hex.EncodeToString(keyAt(byte(i+1)).Public().(ed25519.PublicKey)) == r.URL.Query().Get("key") {
				answer.Statements = append(answer.Statements, s)
			}
		}
		json.NewEncoder(w).Encode(answer)
	}))
	defer manager.Close()
	keys := func() *serviceKeys {
		return &serviceKeys{
			dir: t.TempDir(), log: slog.New(slog.DiscardHandler), client: client.New([]string{manager.URL}, "r1", "s", http.DefaultClient),
			id: &client.Identity{JoinResponse: wire.JoinResponse{Robot: "r1", Secret: "s", ServerKey: keyAt(1).Public().(ed25519.PublicKey), KeyNumber: 1}},
		}
	}
	open := func(k *serviceKeys, by ed25519.PrivateKey) error {
		receipt, err := (&wire.Receipt{State: wire.StatePublished}).Sign(by)
		testkit.Must(t, err)
		return k.Verify(context.Background(), func(keys ...ed25519.PublicKey) error {
			_, err := wire.OpenReceipt(receipt, keys...)
			return err
		})
	}
	stranger := keys()
	for range 100 {
		if err := open(stranger, keyAt(9)); !errors.Is(err, wire.ErrSignature) || !strings.Contains(err.Error(), "joined again") {
			t.Fatalf("a strange key: %v", err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the robot asked %d times", n)
	}
	for n := byte(2); n <= 4; n++ {
		s := wire.StateNextKey(int64(n), keyAt(n).Public().(ed25519.PublicKey), keyAt(n-1))
		s.Prove(keyAt(n))
		chain = append(chain, *s)
	}
	if err := open(keys(), keyAt(4)); err != nil {
		t.Errorf("a key three rotations later: %v", err)
	}
	chain[1] = *wire.StateNextKey(3, keyAt(8).Public().(ed25519.PublicKey), keyAt(8))
	if err := open(keys(), keyAt(8)); !errors.Is(err, wire.ErrSignature) || !errors.Is(err, errStatement) {
		t.Errorf("a forged statement: %v", err)
	}
	away = true
	if err := open(keys(), keyAt(4)); err == nil || errors.Is(err, wire.ErrSignature) {
		t.Errorf("a manager that is away: %v", err)
	}
}

// TestReleaseKeyIsLearntOnce shows that a robot without a release key takes the one that its
// service signed, keeps it over a restart, and takes no other.
func TestReleaseKeyIsLearntOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	cfg := testConfig(t, s, nil)
	r, err := New(cfg, slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	defer r.Close()
	public, _, err := minisign.GenerateKey(nil)
	testkit.Must(t, err)
	_, other, err := ed25519.GenerateKey(nil)
	testkit.Must(t, err)
	u := r.program.updater
	for what, forged := range map[string]*wire.SignedReleaseKey{
		"signed by another service": wire.SignReleaseKey("r1", public.String(), other),
		"signed for another robot":  wire.SignReleaseKey("r2", public.String(), s.key),
		"no key":                    wire.SignReleaseKey("r1", "no key", s.key),
	} {
		if err := r.program.learnReleaseKey(forged); err == nil || r.program.releaseKey() != "" {
			t.Errorf("%s: %v, learnt %q", what, err, r.program.releaseKey())
		}
	}
	testkit.Must(t, r.program.learnReleaseKey(wire.SignReleaseKey("r1", public.String(), s.key)))
	if r.program.releaseKey() != public.String() || u.Key.String() != public.String() {
		t.Errorf("learnt %q, the updater %q", r.program.releaseKey(), u.Key)
	}
	second, _, err := minisign.GenerateKey(nil)
	testkit.Must(t, err)
	testkit.Must(t, r.program.learnReleaseKey(wire.SignReleaseKey("r1", second.String(), s.key)))
	kept, err := client.LoadIdentity(cfg.DataDir)
	testkit.Must(t, err)
	if kept.ReleaseKey != public.String() || kept.Secret != r.id.Secret {
		t.Errorf("kept %+v; want the first key", kept)
	}
}
