package batch

import (
	"os"
	"testing"

	"sheaf/internal/wire"
)

// TestSealExpress: the batch has exactly the given hosts and is marked as express, also after a
// crash in the middle. The chain of manifests includes it.
func TestSealExpress(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 4)
	appendPage(t, s, "a.test", "/1")
	appendPage(t, s, "b.test", "/1")
	id, err := s.Seal(t.Context(), 7, map[string]bool{"a.test": true, "c.test": true})
	if err != nil || id == "" {
		t.Fatalf("%q, %v", id, err)
	}
	if again, err := s.Seal(t.Context(), 7, map[string]bool{"a.test": true}); again != "" || err != nil {
		t.Errorf("nothing new was sealed as %q, %v", again, err)
	}
	appendPage(t, s, "a.test", "/2")
	// Simulate a crash after moving the segments and before making the batch.
	if _, _, err := s.gather(map[string]bool{"a.test": true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir, 4)
	defer s.Close()
	if _, err := s.Seal(t.Context(), 7, nil); err != nil {
		t.Fatal(err)
	}
	spool, err := s.Spool()
	if err != nil || len(spool) != 3 {
		t.Fatalf("%d batches, %v", len(spool), err)
	}
	previous := ""
	for i, want := range []struct {
		host    string
		express bool
	}{{"a.test", true}, {"a.test", true}, {"b.test", false}} {
		m := verifyBatch(t, spool[i])
		if len(m.Hosts) != 1 || m.Hosts[0].Name != want.host || m.Express != want.express || m.Previous != previous {
			t.Errorf("batch %d: hosts %+v, express %v, previous %q", i, m.Hosts, m.Express, m.Previous)
		}
		previous = wire.Digest(spool[i].Signed)
	}
	if left, err := os.ReadDir(s.path(sealingDir)); err != nil || len(left) != 0 {
		t.Errorf("left in sealing: %v, %v", left, err)
	}
}
