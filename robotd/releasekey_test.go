package robotd

import (
	"crypto/ed25519"
	"log/slog"
	"testing"

	"aead.dev/minisign"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/client"
)

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
