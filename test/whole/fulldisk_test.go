package whole

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/sys/unix"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/serve/servetest"
	"sheaf/test/operatorstest"
)

// A take-down on a full disk is whole or refused: with every number of free blocks, from none on,
// the answer says what holds, fsck finds nothing, and once there is room the same request succeeds.
func TestTakedownOnAFullDisk(t *testing.T) {
	testkit.Slow(t)
	disk := testkit.SmallDisk(t, "size=48m,mode=1777")
	if disk == "" {
		return
	}
	t.Setenv("TMPDIR", disk)
	t.Run("takedown", func(t *testing.T) {
		s := servetest.New(t, nil)
		const most = 60
		hosts := make(map[string][]*archive.Record)
		name := func(n int) string { return fmt.Sprintf("www%02d.example.jp", n) }
		for n := range most {
			hosts[name(n)] = []*archive.Record{servetest.Page("http://"+name(n)+"/", "home", time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))}
		}
		s.Publish("20261121", hosts)
		router := mux.NewRouter()
		upkeep.NewTakedowns(s.Catalog, func(context.Context, string) error { return nil }, slog.New(slog.DiscardHandler)).Register(router, operatorstest.Open)
		take := func(host string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			router.ServeHTTP(w, httptest.NewRequest(http.MethodPost, api.PathAdminTakedowns, strings.NewReader(`{"host":"`+host+`","reason":"letter"}`)))
			return w
		}
		// hidden looks with a catalog of its own, as after a restart.
		hidden := func(host string) bool {
			fresh, err := catalog.Open(t.Context(), s.Store, catalog.Options{})
			testkit.Must(t, err)
			now, err := fresh.Pin(t.Context())
			testkit.Must(t, err)
			defer now.Release()
			list, err := now.Hosts(t.Context(), catalog.Key(host), "", 0)
			testkit.Must(t, err)
			return len(list) == 0
		}
		refused, done := 0, 0
		for n := 0; n < most && done < 3; n++ {
			lift := fillDisk(t, disk, int64(n)*4096)
			answer := take(name(n))
			lift()
			switch {
			case answer.Code == http.StatusOK:
				done++
			case answer.Code == http.StatusInsufficientStorage && strings.Contains(answer.Body.String(), "disk_full"):
				refused++
			default:
				t.Errorf("%d blocks free: %d %s", n, answer.Code, answer.Body)
			}
			if is := hidden(name(n)); is != (answer.Code == http.StatusOK) {
				t.Errorf("%d blocks free: answered %d, and it is hidden: %v", n, answer.Code, is)
			}
			report, err := catalog.Fsck(t.Context(), s.Store, catalog.FsckOptions{Deep: true, TempDir: "/tmp"})
			if err != nil || !report.OK() {
				t.Fatalf("%d blocks free: fsck: %+v, %v", n, report, err)
			}
			if again := take(name(n)); again.Code != http.StatusOK || !hidden(name(n)) {
				t.Errorf("%d blocks free, again with room: %d %s", n, again.Code, again.Body)
			}
		}
		if refused == 0 || done == 0 {
			t.Errorf("%d take-downs were refused and %d done, want some of each", refused, done)
		}
	})
}

// fillDisk leaves so many bytes free on a disk, until it is lifted.
func fillDisk(t *testing.T, disk string, free int64) (lift func()) {
	t.Helper()
	file := filepath.Join(disk, "filler")
	f, err := os.Create(file)
	testkit.Must(t, err)
	defer f.Close()
	block, size := make([]byte, 4096), int64(0)
	for {
		n, err := f.Write(block)
		size += int64(n)
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		testkit.Must(t, err)
	}
	testkit.Must(t, f.Truncate(max(0, size-free)))
	return func() { testkit.Must(t, os.Remove(file)) }
}
