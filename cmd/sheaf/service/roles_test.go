package service

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"sheaf/archive/store"
	"sheaf/internal/api"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
)

func TestSplitRolesNeedPostgres(t *testing.T) {
	for _, c := range []struct{ roles, value, says string }{
		{"serve", `"serve"`, "database.url"},
		{"manager,ingest", `"manager,ingest"`, "PostgreSQL"},
		{"serve,cook", `"cook"`, "want some of"},
		{"serve,serve", `"serve"`, "twice"},
		{"", `""`, "want some of"},
	} {
		_, err := Load("", map[string]any{"roles": c.roles})
		if err == nil || !strings.Contains(err.Error(), "settings: roles: "+c.value) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("roles %q: %v", c.roles, err)
		}
	}
	got, err := Load("", map[string]any{"roles": "serve,manager", "database.url": "postgres://db.example.jp/sheaf"})
	if err != nil || !reflect.DeepEqual(got.Roles, []string{"serve", "manager"}) {
		t.Errorf("%v, %v", got.Roles, err)
	}
	if _, err := Load("", map[string]any{"roles": "serve,ingest,manager"}); err != nil {
		t.Errorf("all roles on SQLite: %v", err)
	}
}

// run runs a service with some roles until the test ends.
func run(t *testing.T, settings map[string]any) *Service {
	t.Helper()
	s, _ := start(t, settings)
	return s
}

// start is run for a service that the test stops before its end.
func start(t *testing.T, settings map[string]any) (s *Service, stop func() error) {
	t.Helper()
	s, err := New(t.Context(), testConfig(t, settings), slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	return s, serveUntilEnd(t, s)
}

// serveUntilEnd lets a service serve until the test ends, or stops it before.
func serveUntilEnd(t *testing.T, s *Service) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("service: %v", err)
		}
	})
	return stop
}

// Each process listens, answers and writes as its role has it, and no further.
func TestRoles(t *testing.T) {
	testkit.Slow(t)
	database, shared := dbtest.Postgres(t), t.TempDir()
	paths := map[string]string{ // a path of each role, which answers 401 where it is
		roleManager: "/v1/admin/robots", roleIngest: "/v1/admin/batches", roleServe: "/pub/",
	}
	for _, role := range allRoles() {
		s := run(t, map[string]any{
			"roles": role, "data": shared, "database.url": database,
			"http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "127.0.0.1:0", "drop.listen": "127.0.0.1:0", "stop": "1s",
		})
		at := s.Addresses()
		if (at.Download != "") != (role == roleServe) || (at.Drop != "") != (role == roleIngest) {
			t.Errorf("%s listens at %+v", role, at)
		}
		for of, path := range paths {
			resp, err := http.Get(at.HTTP + path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if (resp.StatusCode == http.StatusUnauthorized) != (of == role) || (resp.StatusCode == http.StatusNotFound) != (of != role) {
				t.Errorf("%s answers %s with %s", role, path, resp.Status)
			}
		}
		checkHealth(t, at.HTTP, role)

		put := func(key string) bool {
			err := s.cfg.confined(s.state.objects).Put(t.Context(), key, strings.NewReader("x"), 1)
			if err != nil && !errors.Is(err, store.ErrConfined) {
				t.Error(err)
			}
			return err == nil
		}
		if got := put("segments/" + role); got != (role == roleIngest) {
			t.Errorf("%s may write archives: %v", role, got)
		}
		if got := put("releases/" + role); got != (role != roleServe) {
			t.Errorf("%s may write releases: %v", role, got)
		}
	}
}

func checkHealth(t *testing.T, url, role string) {
	t.Helper()
	for query, want := range map[string]int{"": 200, "?role=" + role: 200, "?role=cook": 503} {
		resp, err := http.Get(url + api.PathHealth + query)
		if err != nil {
			t.Fatal(err)
		}
		var h Health
		if err := json.NewDecoder(resp.Body).Decode(&h); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || !reflect.DeepEqual(h.Roles, []string{role}) || h.Database != healthOK {
			t.Errorf("%s%s: %s, %+v; want %d", api.PathHealth, query, resp.Status, h, want)
		}
	}
}

// A serve node needs no key of the service's and makes none; one that signs with
// another key than the robots know does not start.
func TestKeysOfSeveral(t *testing.T) {
	testkit.Slow(t)
	database := dbtest.Postgres(t)
	settings := func(roles string) map[string]any {
		return map[string]any{
			"roles": roles, "data": t.TempDir(), "database.url": database,
			"http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "stop": "1s",
		}
	}
	run(t, settings("manager,ingest"))
	serving := settings("serve")
	run(t, serving)
	if _, err := os.Stat(filepath.Join(serving["data"].(string), receiptKeyFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a serve node has a key: %v", err)
	}
	other := settings("manager")
	cfg, err := Load("", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "settings: data") || !strings.Contains(err.Error(), receiptKeyFile) {
		t.Errorf("with another key: %v", err)
	}
}
