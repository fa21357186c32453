package batch

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/files"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

func openStore(t *testing.T, dir string, maxOpen int) *Store {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	s, err := Open(dir, 7, Options{Robot: "r1", Version: "0", Key: key, MaxOpen: maxOpen})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func appendPage(t *testing.T, s *Store, host, path string) Cell {
	t.Helper()
	rec := &archive.Record{
		Kind: archive.Page, URL: "http://" + host + path, Time: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC),
		HTTP: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: bytes.NewReader([]byte("<p>" + path)),
	}
	cell, noted, err := s.Append(host, rec)
	if err != nil {
		t.Fatal(err)
	}
	noted()
	return cell
}

func verifyBatch(t *testing.T, b Spooled) *wire.Manifest {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	m, err := wire.OpenManifest(b.Signed, key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(b.Path)
	if err != nil {
		t.Fatal(err)
	}
	if wire.Digest(data) != m.SHA256 {
		t.Errorf("%s: the manifest's digest is another's", b.ID)
	}
	end := int64(0)
	for _, h := range m.Hosts {
		end = h.Offset + h.Length
		if _, err := archive.VerifyRange(bytes.NewReader(data[h.Offset:end]), archive.VerifyOptions{Host: h.Name}); err != nil {
			t.Errorf("%s: %s: %v", b.ID, h.Name, err)
		}
	}
	if _, err := archive.VerifyBatchTail(bytes.NewReader(data[end:])); err != nil {
		t.Errorf("%s: %v", b.ID, err)
	}
	return m
}

// TestSealAndChain: more hosts than open files, with a restart in between, make two batches in a
// chain.
func TestSealAndChain(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 2)
	hosts := []string{"a.test", "b.test:8080", "c.test", "d.test"}
	for page := range 3 {
		for _, host := range hosts {
			appendPage(t, s, host, fmt.Sprintf("/%d", page))
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir, 2)
	id, cells, err := s.Resume("b.test:8080")
	if err != nil || id == "" || len(cells) != 3 || cells[2].URL != "http://b.test:8080/2" {
		t.Fatalf("Resume = %q, %d cells, %v", id, len(cells), err)
	}
	if got := appendPage(t, s, "b.test:8080", "/3"); got.Segment != id || s.Size() == 0 {
		t.Errorf("a page after a restart went to segment %q, not %q", got.Segment, id)
	}
	if id, _, err := s.Resume("never.test"); id != "" || err != nil {
		t.Errorf("Resume of an unknown host = %q, %v", id, err)
	}
	first, err := s.Seal(t.Context(), 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	if empty, err := s.Seal(t.Context(), 7, nil); empty != "" || err != nil {
		t.Errorf("Seal of nothing = %q, %v", empty, err)
	}
	appendPage(t, s, "a.test", "/later")
	second, err := s.Seal(t.Context(), 8, nil)
	if err != nil {
		t.Fatal(err)
	}
	spool, err := s.Spool()
	if err != nil || len(spool) != 2 || spool[0].ID != first || spool[1].ID != second || s.Last() != second {
		t.Fatalf("Spool = %v, %v; want %s and %s", spool, err, first, second)
	}
	one, two := verifyBatch(t, spool[0]), verifyBatch(t, spool[1])
	if len(one.Hosts) != 4 || one.Previous != "" || one.Generation != 7 || one.Hosts[1].Records != 4 {
		t.Errorf("first manifest: %+v", one)
	}
	if two.Previous != wire.Digest(spool[0].Signed) || two.Generation != 8 {
		t.Errorf("second manifest: %+v", two)
	}
	if err := s.Remove(first); err != nil {
		t.Fatal(err)
	}
	if err := s.Quarantine(second, "clock: off"); err != nil {
		t.Fatal(err)
	}
	if spool, err := s.Spool(); err != nil || len(spool) != 0 {
		t.Errorf("Spool = %v, %v", spool, err)
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, quarantineDir, string(second)+".*")); len(kept) != 3 {
		t.Errorf("quarantined files: %v", kept)
	}
}

// The manifest of the next batch has, by host, what was and what was not collected. Only that one
// has it.
func TestCoverage(t *testing.T) {
	dir := t.TempDir()
	ledger, err := OpenLedger(filepath.Join(dir, "coverage.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	s, err := Open(dir, 7, Options{
		Robot: "r1", Version: "0", Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)),
		Ledger: ledger, Clock: func() *wire.Clock { return &wire.Clock{OffsetMS: -40, ErrorMS: 500} },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.Add(Uncollected{Kind: KindFailed, Reason: "dns", Host: "down.test", N: 1, URL: "http://down.test/"}); err != nil {
		t.Fatal(err)
	}
	if id, err := s.Seal(t.Context(), 7, nil); id != "" || err != nil {
		t.Fatalf("Seal without pages = %q, %v", id, err)
	}
	appendPage(t, s, "a.test", "/")
	id, _, err := s.gather(nil) // then the process is killed
	if err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir, 0)
	appendPage(t, s, "a.test", "/2")
	if _, err := s.Seal(t.Context(), 7, nil); err != nil {
		t.Fatal(err)
	}
	spool, err := s.Spool()
	if err != nil || len(spool) != 2 || spool[0].ID != id {
		t.Fatalf("Spool = %v, %v", spool, err)
	}
	collected := wire.Coverage{Host: "a.test", Collected: 1}
	failed := wire.Coverage{Host: "down.test", Failed: map[string]int64{"dns": 1}, URLs: []wire.CoveredURL{{URL: "http://down.test/", Why: "failed dns"}}}
	for i, want := range [][]wire.Coverage{{collected, failed}, {collected}} {
		if m := verifyBatch(t, spool[i]); !reflect.DeepEqual(m.Coverage, want) {
			t.Errorf("batch %d: %+v, want %+v", i, m.Coverage, want)
		}
	}
}

// If a crash has left only a partial page there is no batch, and the next one gets its number.
func TestNothingWholeToSeal(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 0)
	appendPage(t, s, "a.test", "/")
	id, _, err := s.gather(nil)
	if err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob(s.path(sealingDir, string(id), "*"+suffix))
	if len(paths) != 1 || os.Truncate(paths[0], 40) != nil {
		t.Fatal(paths)
	}
	s = openStore(t, dir, 0)
	if spool, err := s.Spool(); err != nil || len(spool) != 0 || s.Last() != "" {
		t.Fatalf("Spool = %v, %v", spool, err)
	}
	appendPage(t, s, "a.test", "/")
	next, err := s.Seal(t.Context(), 7, nil)
	if err != nil || number(next) != 1 {
		t.Fatalf("batch %s, %v", next, err)
	}
}

func sealAll(t *testing.T, s *Store, id wire.BatchID) []string {
	t.Helper()
	paths, err := filepath.Glob(s.path(sealingDir, string(id), "*"+suffix))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		if _, err := s.seal(path, nil); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// After a crash at any point between sealing and the entry in the chain there is one and the same
// batch.
func TestCrashWhileSealing(t *testing.T) {
	for name, crash := range map[string]func(t *testing.T, s *Store, id wire.BatchID){
		"segments moved": func(*testing.T, *Store, wire.BatchID) {},
		"segments sealed": func(t *testing.T, s *Store, id wire.BatchID) {
			sealAll(t, s, id)
		},
		"a segment cut while it was sealed": func(t *testing.T, s *Store, id wire.BatchID) {
			paths := sealAll(t, s, id)
			if st, err := os.Stat(paths[0]); err != nil || os.Truncate(paths[0], st.Size()-50) != nil {
				t.Fatal(err)
			}
		},
		"batch half written": func(t *testing.T, s *Store, id wire.BatchID) {
			if err := os.WriteFile(s.batchPath(id)+files.TempSuffix, []byte("half"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"batch written, manifest not": func(t *testing.T, s *Store, id wire.BatchID) {
			if err := os.WriteFile(s.batchPath(id), []byte("whole, but nobody says so"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"manifest written, chain not": func(t *testing.T, s *Store, id wire.BatchID) {
			if _, err := s.write(t.Context(), id, 7, nil); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, dir, 0)
			appendPage(t, s, "a.test", "/")
			appendPage(t, s, "b.test", "/")
			id, _, err := s.gather(nil)
			if err != nil {
				t.Fatal(err)
			}
			crash(t, s, id)

			s = openStore(t, dir, 0)
			spool, err := s.Spool()
			if err != nil || len(spool) != 1 || spool[0].ID != id || s.Last() != id {
				t.Fatalf("Spool = %v, %v; want %s", spool, err, id)
			}
			if m := verifyBatch(t, spool[0]); len(m.Hosts) != 2 {
				t.Errorf("manifest: %+v", m)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, sealingDir, "*")); len(left) != 0 {
				t.Errorf("sealing holds %v", left)
			}
			if err := os.Remove(s.manifestPath(id)); err != nil {
				t.Fatal(err)
			}
			openStore(t, dir, 0)
			if left, _ := filepath.Glob(filepath.Join(dir, spoolDir, "*.tar.gz")); len(left) != 0 {
				t.Errorf("a batch whose manifest is gone was kept: %v", left)
			}
		})
	}
}

// A batch whose putting aside was interrupted between its two files is put aside at the next start.
func TestCrashWhileQuarantining(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 2)
	appendPage(t, s, "a.test", "/")
	id, err := s.Seal(t.Context(), 7, nil)
	testkit.Must(t, err)
	signed, err := os.ReadFile(s.manifestPath(id))
	testkit.Must(t, err)
	testkit.Must(t, s.Quarantine(id, "clock: off"))
	testkit.Must(t, os.Remove(s.path(quarantineDir, string(id)+".manifest")))
	testkit.Must(t, os.WriteFile(s.manifestPath(id), signed, 0o644))
	testkit.Must(t, s.Close())

	s = openStore(t, dir, 2)
	defer s.Close()
	if left, err := s.Spool(); err != nil || len(left) != 0 {
		t.Errorf("the spool has %d batches, %v", len(left), err)
	}
	if aside, _ := filepath.Glob(s.path(quarantineDir, "*")); len(aside) != 3 {
		t.Errorf("spool/quarantined has %v", aside)
	}
}

// A batch whose making was broken off is announced when it is made after all, even if there is
// nothing else to seal.
func TestBatchIsAnnouncedOnce(t *testing.T) {
	announced := 0
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	s, err := Open(t.TempDir(), 7, Options{Robot: "r1", Version: "0", Key: key, Made: func() { announced++ }})
	testkit.Must(t, err)
	defer s.Close()
	appendPage(t, s, "a.test", "/")
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.Seal(ended, 7, nil); !errors.Is(err, context.Canceled) || announced != 0 {
		t.Fatalf("a seal that was broken off: %v; %d batches announced", err, announced)
	}
	for range 2 {
		_, err = s.Seal(t.Context(), 7, nil)
		testkit.Must(t, err)
		if left, err := s.Spool(); err != nil || len(left) != 1 || announced != 1 {
			t.Errorf("%d batches in the spool, %v; %d announced", len(left), err, announced)
		}
	}
}

// A host gets no segment when another host's file cannot be closed, and does not keep it in use.
func TestSegmentOfAnotherIsNotClosed(t *testing.T) {
	w, err := archive.Create(filepath.Join(t.TempDir(), "a"), "a.test", "1", archive.WriterOptions{})
	testkit.Must(t, err)
	testkit.Must(t, w.Close())
	s := &segments{max: 1, hosts: make(map[string]*segment)}
	of := func(host string, w *archive.Writer) (*segment, error) {
		return s.get(host, func() *segment { return &segment{host: host, writer: w} })
	}
	a, err := of("a.test", w)
	testkit.Must(t, err)
	s.put(a)
	if b, err := of("b.test", nil); b != nil || err == nil {
		t.Errorf("the file of a is closed twice: %v, %v", b, err)
	}
	if b, err := of("b.test", nil); err != nil || b.held != 1 {
		t.Errorf("the next time: %+v, %v", b, err)
	}
}
