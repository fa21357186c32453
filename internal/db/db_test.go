package db_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/internal/db"
)

func TestOpenSetsWhatDurabilityNeeds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd ?#% name.db")
	d, err := db.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "15000"} {
		var got string
		if err := d.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s is %s, want %s", pragma, got, want)
		}
	}
	if m, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "odd *")); len(m) == 0 {
		t.Error("the file does not have the name it was given")
	}
}

func TestOpenAgainKeepsRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sheaf.db")
	d, err := db.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Exec("UPDATE generation SET number = 7"); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, err = db.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var n int
	if err := d.QueryRow("SELECT number FROM generation").Scan(&n); err != nil || n != 7 {
		t.Fatalf("number %d, %v; want 7", n, err)
	}
}

func TestOpenRefusesNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sheaf.db")
	d, err := db.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)"); err != nil {
		t.Fatal(err)
	}
	d.Close()
	if _, err := db.Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "newer than this program") {
		t.Fatalf("got %v, want a refusal", err)
	}
}

func TestTimeIsMillisInverse(t *testing.T) {
	at := time.Date(2026, 11, 21, 3, 4, 5, 678e6, time.UTC)
	if got := db.Time(db.Millis(at)); !got.Equal(at) {
		t.Errorf("got %v, want %v", got, at)
	}
	if !db.Time(db.Millis(time.Time{})).IsZero() {
		t.Error("the zero time does not survive")
	}
}
