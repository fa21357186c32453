package service

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/db"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/serve/servetest"
)

// A download that is under way when the service begins to stop is finished, noted and
// counted: a graceful stop loses nothing of what the database is told later.
func TestStopLosesNoNote(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	site := servetest.New(t, nil)
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	body := strings.Repeat("a page of the archive, not to be compressed much: 0123456789abcdef\n", 40_000)
	site.Publish("20261121", map[string][]*archive.Record{
		"www.waseda.ac.jp": {servetest.Page("http://www.waseda.ac.jp/", body, at)},
	})
	data := filepath.Dir(site.Dir)
	cfg := testConfig(t, map[string]any{
		"data": data, "stop": "1m",
		"database.fresh": true, "access.anonymous": []string{"jp"}, "access.anonymous_rate": "8KiB",
	})
	s, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	resp, err := http.Get(s.Addresses().HTTP + "/a/www.waseda.ac.jp/20261121.tar.gz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	defer resp.Body.Close()
	_, firstErr := io.ReadFull(resp.Body, make([]byte, 1))
	stop()
	n, restErr := io.Copy(io.Discard, resp.Body)
	size := n + 1
	if err := errors.Join(firstErr, restErr, <-ended); err != nil || size != resp.ContentLength {
		t.Fatalf("%d of %d bytes came, %v", size, resp.ContentLength, err)
	}
	d, err := db.Open(t.Context(), filepath.Join(data, "sheaf.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	list, err := transfers.New(d).List(t.Context(), transfers.Filter{})
	if err != nil || len(list) != 1 || list[0].Bytes != size || list[0].Outcome != transfers.OK {
		t.Errorf("noted: %+v, %v; want one download of %d bytes", list, err, size)
	}
	var counted int64
	if err := d.QueryRowContext(t.Context(), "SELECT SUM(bytes) FROM account_bytes").Scan(&counted); err != nil || counted != size {
		t.Errorf("counted %d bytes, %v; want %d", counted, err, size)
	}
}
