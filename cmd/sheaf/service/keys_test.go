package service

import (
	"bytes"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

var testSeal = strings.Repeat("5e", sealSize)

// node is the settings of a process with a directory of its own.
func node(database, data, roles, seal string) map[string]any {
	return map[string]any{
		"roles": roles, "data": data, "database.url": database, "database.seal": seal,
		"http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "stop": "1s",
	}
}

// Processes whose directories are new and their own start at the same time with the same keys, as
// do those that come later. None of it can be read in the database.
func TestSealedKeys(t *testing.T) {
	t.Parallel()
	testkit.Slow(t)
	database := dbtest.Postgres(t)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	errs := make([]error, len(dirs))
	var all sync.WaitGroup
	for i, data := range dirs {
		cfg := testConfig(t, node(database, data, "manager,ingest", testSeal))
		all.Go(func() {
			var s *Service
			if s, errs[i] = New(t.Context(), cfg, slog.New(slog.DiscardHandler)); errs[i] == nil {
				s.close()
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		testkit.Must(t, err)
	}
	serving := t.TempDir()
	s, err := begin(t, serving, node(database, serving, "serve", testSeal))
	end(t, s, err)

	d, err := db.Open(t.Context(), database)
	testkit.Must(t, err)
	defer d.Close()
	for _, name := range []string{receiptKeyFile, tokenFile} {
		want, err := os.ReadFile(filepath.Join(dirs[0], name))
		testkit.Must(t, err)
		for _, data := range dirs[1:] {
			if got, err := os.ReadFile(filepath.Join(data, name)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %q, %v; another process has %q", name, got, err, want)
			}
		}
		if got, err := os.ReadFile(filepath.Join(serving, name)); (err == nil) != (name == tokenFile) || err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s of a node that serves: %q, %v", name, got, err)
		}
		var sealed []byte
		testkit.Must(t, d.QueryRowContext(t.Context(), `SELECT sealed FROM sealed_keys WHERE name = ?`, name).Scan(&sealed))
		key, err := hex.DecodeString(strings.TrimSpace(string(want)))
		testkit.Must(t, err)
		if bytes.Contains(sealed, key) || bytes.Contains(sealed, want) {
			t.Errorf("the database has %s in clear", name)
		}
	}

	_, err = begin(t, t.TempDir(), node(database, t.TempDir(), "serve", strings.Repeat("00", sealSize)))
	wantRefused(t, err, "database.seal", tokenFile)
	testkit.Must(t, os.WriteFile(filepath.Join(serving, tokenFile), []byte(strings.Repeat("0", 2*tokenSize)), 0o600))
	_, err = begin(t, serving, node(database, serving, "serve", testSeal))
	wantRefused(t, err, serving, "another "+tokenFile)
}

// An installation that has keys in its directory puts those into the database when it is given
// database.seal. A directory without the key that robots know, or with another, puts none there.
func TestSealedKeysOfOldInstallation(t *testing.T) {
	t.Parallel()
	testkit.Slow(t)
	database, data, foreign := dbtest.Postgres(t), t.TempDir(), t.TempDir()
	s, err := begin(t, data, node(database, data, "manager", ""))
	end(t, s, err)
	key, err := os.ReadFile(filepath.Join(data, receiptKeyFile))
	testkit.Must(t, err)

	other := t.TempDir()
	for _, roles := range []string{"manager", "serve"} {
		_, err = begin(t, other, node(database, other, roles, testSeal))
		wantRefused(t, err, "database.seal", "first")
	}
	testkit.Must(t, os.WriteFile(filepath.Join(foreign, receiptKeyFile), []byte(strings.Repeat("0", 64)), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(foreign, tokenFile), []byte(strings.Repeat("0", 64)), 0o600))
	_, err = begin(t, foreign, node(database, foreign, "manager", testSeal))
	wantRefused(t, err, foreign, "another "+receiptKeyFile)

	s, err = begin(t, data, node(database, data, "manager", testSeal))
	end(t, s, err)
	s, err = begin(t, other, node(database, other, "manager", testSeal))
	end(t, s, err)
	if got, err := os.ReadFile(filepath.Join(other, receiptKeyFile)); err != nil || !bytes.Equal(got, key) {
		t.Errorf("the second process has %q, %v; the installation's key is %q", got, err, key)
	}
}
