package service

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
)

// healthOf asks a service that has just looked at nothing.
func healthOf(t *testing.T, s *Service, query string) (status int, h Health) {
	t.Helper()
	for _, c := range s.health.checks {
		c.mu.Lock()
		c.result.Checked = time.Time{}
		c.mu.Unlock()
	}
	resp, err := http.Get(s.Addresses().HTTP + api.PathHealth + query)
	testkit.Must(t, err)
	defer resp.Body.Close()
	testkit.Must(t, json.NewDecoder(resp.Body).Decode(&h))
	ready := resp.StatusCode
	if h.down(checkLeases) { // what is asked is still answered
		ready = http.StatusOK
	}
	for path, want := range map[string]int{api.PathReady: ready, api.PathLive: http.StatusOK} {
		got, err := http.Get(s.Addresses().HTTP + path + query)
		testkit.Must(t, err)
		word, err := io.ReadAll(got.Body)
		got.Body.Close()
		if err != nil || got.StatusCode != want {
			t.Errorf("%s%s: %s %q, want %d", path, query, got.Status, word, want)
		}
	}
	return resp.StatusCode, h
}

// wantDown expects that some roles cannot work, as exactly one check fails, and that it says why.
func wantDown(t *testing.T, s *Service, check, says string, roles ...string) {
	t.Helper()
	status, h := healthOf(t, s, "")
	if status != http.StatusServiceUnavailable || h.Status == healthOK {
		t.Errorf("%s: health %d %+v", check, status, h)
	}
	for _, c := range h.Checks {
		if (c.Status == healthDown) != (c.Name == check) || c.Name == check && !strings.Contains(c.Detail, says) {
			t.Errorf("%s: %+v, want %q", check, c, says)
		}
	}
	for _, role := range allRoles() {
		want := http.StatusOK
		for _, down := range roles {
			if down == role {
				want = http.StatusServiceUnavailable
			}
		}
		if status, _ := healthOf(t, s, "?role="+role); status != want {
			t.Errorf("%s: role %s has %d, want %d", check, role, status, want)
		}
	}
}

func wantWell(t *testing.T, s *Service) {
	t.Helper()
	if status, h := healthOf(t, s, ""); status != http.StatusOK || h.Status != healthOK || len(h.Ready) != 3 || len(h.Checks) != 6 {
		t.Errorf("well: %d %+v", status, h)
	}
}

func TestHealthSeesWhatIsAway(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	settings := map[string]any{"data": data, "http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "stop": "1s", "uploads.full": "100"}
	s := run(t, settings)
	wantWell(t, s)
	c, err := catalog.Open(t.Context(), s.state.objects, catalog.Options{})
	testkit.Must(t, err)
	_, err = c.Publish(t.Context(), catalog.Publication{Batches: []catalog.Batch{{ID: "b1", SHA256: "x"}}, Entries: catalog.Entries()})
	testkit.Must(t, err)
	wantWell(t, s)

	dir := filepath.Join(data, "store")
	move := func(from, to string) { t.Helper(); testkit.Must(t, os.Rename(from, to)) }
	move(dir, dir+".away")
	wantDown(t, s, checkStore, "mounted", roleIngest, roleServe)
	move(dir+".away", dir)
	wantWell(t, s)

	move(filepath.Join(dir, "catalog"), filepath.Join(data, "catalog"))
	wantDown(t, s, checkCatalog, "log says why", roleIngest, roleServe)
	move(filepath.Join(data, "catalog"), filepath.Join(dir, "catalog"))
	wantWell(t, s)

	s.state.db.Close()
	_, h := healthOf(t, s, "")
	if h.Database != healthAway || h.Status != healthDegraded || h.Ready[roleServe] != healthOK || h.Ready[roleManager] != healthDown {
		t.Errorf("without a database: %+v", h)
	}
}

func TestHealthSeesFullDisk(t *testing.T) {
	t.Parallel()
	data := testkit.SmallDisk(t, "size=64m")
	if data == "" {
		return // it was done in a namespace of its own
	}
	s := run(t, map[string]any{"data": data, "http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "stop": "1s", "uploads.full": "60"})
	wantWell(t, s)
	fill := filepath.Join(data, "else")
	testkit.Must(t, os.WriteFile(fill, make([]byte, 40<<20), 0o600))
	wantDown(t, s, checkUploads, "uploads stop at 60 %", roleIngest)
	testkit.Must(t, os.WriteFile(fill, make([]byte, 55<<20), 0o600))
	status, h := healthOf(t, s, "")
	if status != http.StatusServiceUnavailable || h.Ready[roleManager] != healthDown {
		t.Errorf("a full disk: %d %+v", status, h)
	}
	testkit.Must(t, os.Remove(fill))
	wantWell(t, s)
}

// What hangs is told of in time, and not asked again while it hangs; what was looked at is not
// looked at again at once.
func TestCheckupHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, hang := 0, make(chan struct{})
		c := &checkup{name: "disk", wait: healthWait, log: slog.New(slog.DiscardHandler), look: func(context.Context) error {
			looks++
			if hang != nil {
				<-hang
			}
			return nil
		}}
		for range 3 {
			begun := time.Now()
			if got := c.get(); got.Status != healthDown || time.Since(begun) != healthWait {
				t.Errorf("after %v: %+v", time.Since(begun), got)
			}
		}
		close(hang)
		synctest.Wait()
		for range 3 {
			if got := c.get(); got.Status != healthOK {
				t.Errorf("it answers: %+v", got)
			}
		}
		time.Sleep(healthKept)
		c.get()
		if looks != 2 {
			t.Errorf("%d looks", looks)
		}
	})
}
