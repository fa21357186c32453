package inbox

import (
	"path/filepath"
	"testing"

	"sheaf/internal/db"
	"sheaf/internal/testkit"
)

// What is asked again and again must not read every batch that ever came. SQLite has no statistics
// here, as in a service that was just installed.
func TestUncollectedHasAnIndex(t *testing.T) {
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "control.db"))
	testkit.Must(t, err)
	defer d.Close()
	var id, parent, unused int
	var plan string
	testkit.Must(t, d.QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN "+selectBatches+uncollected).Scan(&id, &parent, &unused, &plan))
	if want := "SEARCH ingest_batches USING INDEX ingest_batches_uncollected (state=? AND collected=?)"; plan != want {
		t.Errorf("%s, want %s", plan, want)
	}
}
