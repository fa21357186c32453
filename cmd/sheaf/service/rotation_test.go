package service

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/api"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	robotclient "sheaf/robotd/client"
	"sheaf/serve/client"
)

// operate sends a request to a service as its operator.
func operate(t *testing.T, s *Service, method, path string, in, out any) error {
	t.Helper()
	c, err := client.Operator(s.Addresses().HTTP, s.OperatorToken())
	testkit.Must(t, err)
	return c.Do(t.Context(), method, path, in, out)
}

// wantSigns checks with which key each process signs.
func wantSigns(t *testing.T, what string, number int64, processes ...*Service) {
	t.Helper()
	for i, s := range processes {
		if key, err := s.state.keys.Signing(t.Context()); err != nil || key.Number != number {
			t.Errorf("%s: process %d signs with key %d (%v), want %d", what, i, key.Number, err, number)
		}
	}
}

// keysIn returns the names of the service's keys in a data directory.
func keysIn(t *testing.T, data string) []string {
	t.Helper()
	return slices.DeleteFunc(filesIn(t, data), func(name string) bool { return !strings.HasPrefix(name, "receipt") })
}

// Two processes with directories of their own change over to a new key while they run. One that
// starts later has the new one. One without database.seal cannot get it: it signs nothing more,
// says so, and does not start again.
func TestProcessesRotateTogether(t *testing.T) {
	t.Parallel()
	testkit.Slow(t)
	database := dbtest.Postgres(t)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()}
	first, second := run(t, node(database, dirs[0], "manager", testSeal)), run(t, node(database, dirs[1], "manager,ingest", testSeal))
	key, err := os.ReadFile(filepath.Join(dirs[0], receiptKeyFile))
	testkit.Must(t, err)
	token, err := os.ReadFile(filepath.Join(dirs[0], tokenFile))
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(dirs[2], receiptKeyFile), key, 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(dirs[2], tokenFile), token, 0o600))
	apart, stop := start(t, node(database, dirs[2], "manager", ""))
	wantSigns(t, "at first", 1, first, second, apart)

	err = operate(t, apart, http.MethodPost, api.PathAdminKeys+"/rotate", KeyRotation{}, nil)
	if err == nil || !strings.Contains(err.Error(), "database.seal") {
		t.Errorf("a process that cannot share a key makes one: %v", err)
	}
	testkit.Must(t, operate(t, first, http.MethodPost, api.PathAdminKeys+"/rotate", KeyRotation{}, nil))
	wantSigns(t, "announced", 1, first, second, apart)
	testkit.Must(t, operate(t, second, http.MethodPost, api.PathAdminKeys+"/use", KeyUse{}, nil))
	wantSigns(t, "in use", 2, first, second)
	for _, data := range dirs[:2] {
		if got := keysIn(t, data); !slices.Equal(got, []string{"receipt-2.key"}) {
			t.Errorf("%s has %v", data, got)
		}
	}
	later := run(t, node(database, dirs[3], "manager", testSeal))
	wantSigns(t, "started later", 2, later)

	if key, err := apart.state.keys.Signing(t.Context()); err == nil {
		t.Errorf("a process that has not the new key signs with key %d", key.Number)
	}
	if status, h := healthOf(t, apart, ""); status != http.StatusServiceUnavailable || !slices.ContainsFunc(h.Checks, func(c HealthCheck) bool {
		return c.Name == checkKey && c.Status == healthDown && strings.Contains(c.Detail, "database.seal")
	}) {
		t.Errorf("its health is %d %+v", status, h)
	}
	testkit.Must(t, stop())
	_, err = begin(t, dirs[2], node(database, dirs[2], "manager", ""))
	wantRefused(t, err, "receipt-2.key", "database.seal")
}

// A service with SQLite rotates its key and is restarted at each step. A backup has the keys that
// sign now and next, and a service restored from it goes on from there.
func TestRotationAndRestart(t *testing.T) {
	t.Parallel()
	testkit.Slow(t)
	data := t.TempDir()
	settings := map[string]any{"data": data, "http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "stop": "1s"}
	var backup bytes.Buffer
	for _, step := range []struct {
		what, path string
		body       any
		signs      int64
		files      []string
	}{
		{"nothing", "", nil, 1, []string{"receipt.key"}},
		{"announced", "/rotate", KeyRotation{}, 1, []string{"receipt-2.key", "receipt.key"}},
		{"announced again", "/rotate", KeyRotation{}, 1, []string{"receipt-2.key", "receipt.key"}},
		{"used", "/use", KeyUse{}, 2, []string{"receipt-2.key"}},
		{"announced", "/rotate", KeyRotation{}, 2, []string{"receipt-2.key", "receipt-3.key"}},
		{"stolen", "/rotate", KeyRotation{Compromised: true}, 4, []string{"receipt-4.key"}},
		{"announced", "/rotate", KeyRotation{}, 4, []string{"receipt-4.key", "receipt-5.key"}},
	} {
		s, stop := start(t, settings)
		if step.path != "" {
			testkit.Must(t, operate(t, s, http.MethodPost, api.PathAdminKeys+step.path, step.body, nil))
		}
		wantSigns(t, step.what, step.signs, s)
		if got := keysIn(t, data); !slices.Equal(got, step.files) {
			t.Errorf("%s: the directory has %v, want %v", step.what, got, step.files)
		}
		backup.Reset()
		testkit.Must(t, writeBackup(t.Context(), s.state.db, &s.cfg, &backup))
		testkit.Must(t, stop())
	}
	elsewhere := t.TempDir()
	settings["data"] = elsewhere
	_, err := Restore(t.Context(), testConfig(t, settings), &backup)
	testkit.Must(t, err)
	s := run(t, settings)
	wantSigns(t, "restored", 4, s)
	testkit.Must(t, operate(t, s, http.MethodPost, api.PathAdminKeys+"/use", KeyUse{}, nil))
	wantSigns(t, "restored, then used", 5, s)
	if err := operate(t, s, http.MethodPost, api.PathAdminKeys+"/use", KeyUse{}, nil); err == nil || !strings.Contains(err.Error(), servicekey.ErrNoneAnnounced.Error()) {
		t.Errorf("used a key that there is not: %v", err)
	}
	var list KeyList
	testkit.Must(t, operate(t, s, http.MethodGet, api.PathAdminKeys, nil, &list))
	var states []string
	for _, k := range list.Keys {
		states = append(states, k.Name+" "+k.State)
	}
	want := []string{"service 1 former", "service 2 former", "service 3 former", "service 4 former", "service 5 signs", "operator token set", "release none", "database seal none", "quorum none"}
	if !slices.Equal(states, want) {
		t.Errorf("the keys are %q, want %q", states, want)
	}
}

// SECURITY.md says how the operators' token and database.seal are replaced by hand: with all
// processes stopped, by deleting what there is.
func TestTokenAndSealReplaced(t *testing.T) {
	t.Parallel()
	testkit.Slow(t)
	database, data, other := dbtest.Postgres(t), t.TempDir(), t.TempDir()
	s, stop := start(t, node(database, data, "manager", testSeal))
	was := s.OperatorToken()
	testkit.Must(t, stop())
	second, err := begin(t, other, node(database, other, "serve", testSeal))
	end(t, second, err)

	s, err = begin(t, data, node(database, data, "manager", testSeal))
	testkit.Must(t, err)
	_, err = s.state.db.ExecContext(t.Context(), `DELETE FROM sealed_keys WHERE name = 'operator.token'`)
	testkit.Must(t, err)
	s.close()
	for _, dir := range []string{data, other} {
		testkit.Must(t, os.Remove(filepath.Join(dir, tokenFile)))
	}
	s = run(t, node(database, data, "manager", testSeal))
	if s.OperatorToken() == was {
		t.Error("the token is the same")
	}
	c, err := client.Operator(s.Addresses().HTTP, was)
	testkit.Must(t, err)
	if err := c.Do(t.Context(), http.MethodGet, api.PathAdminKeys, nil, nil); err == nil {
		t.Error("the former token still opens")
	}
	second, err = begin(t, other, node(database, other, "serve", testSeal))
	testkit.Must(t, err)
	if second.OperatorToken() != s.OperatorToken() {
		t.Error("two processes have two tokens")
	}
	second.close()

	_, err = s.state.db.ExecContext(t.Context(), `DELETE FROM sealed_keys`)
	testkit.Must(t, err)
	fresh := strings.Repeat("a7", sealSize)
	again, err := New(t.Context(), testConfig(t, node(database, data, "manager", fresh)), slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	defer again.close()
	_, err = begin(t, other, node(database, other, "serve", testSeal))
	wantRefused(t, err, "database.seal")
	testkit.Must(t, os.Remove(filepath.Join(other, tokenFile)))
	second, err = begin(t, other, node(database, other, "serve", fresh))
	end(t, second, err)
}

// What keeps a robot from following is said with its name, where an operator looks: its program is
// too old to ask, or it knows a key that this service never had.
func TestRobotsThatCannotFollow(t *testing.T) {
	t.Parallel()
	s := run(t, map[string]any{"data": t.TempDir(), "http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "stop": "1s"})
	var admitted manager.AdmitResponse
	testkit.Must(t, operate(t, s, http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: "old"}, &admitted))
	var joined wire.JoinResponse
	testkit.Must(t, operate(t, s, http.MethodPost, wire.PathJoin, wire.JoinRequest{Token: admitted.Token, Version: "1", PublicKey: make([]byte, 32)}, &joined))
	trouble := func(what string, words ...string) {
		t.Helper()
		var list KeyList
		testkit.Must(t, operate(t, s, http.MethodGet, api.PathAdminKeys, nil, &list))
		var robots manager.RobotsResponse
		testkit.Must(t, operate(t, s, http.MethodGet, api.PathAdminRobots, nil, &robots))
		why := ""
		for _, t := range robots.Robots[0].Troubles {
			if t.Kind == wire.TroubleKey {
				why = t.Detail
			}
		}
		if len(list.Robots) > 0 && list.Robots[0].Why != why || len(list.Robots) == 0 && why != "" {
			t.Errorf("%s: robot ls says %q, key ls %+v", what, why, list.Robots)
		}
		for _, word := range words {
			if !strings.Contains(why, word) {
				t.Errorf("%s: %q does not say %q", what, why, word)
			}
		}
		if len(words) == 0 && why != "" {
			t.Errorf("%s: %s", what, why)
		}
	}
	trouble("joined")
	testkit.Must(t, operate(t, s, http.MethodPost, api.PathAdminKeys+"/rotate", KeyRotation{}, nil))
	trouble("announced", "key 1 of 2", "asks for newer ones")
	err := operate(t, s, http.MethodPost, api.PathAdminKeys+"/use", KeyUse{}, nil)
	if err == nil || !strings.Contains(err.Error(), "old") || !strings.Contains(err.Error(), "--leave") {
		t.Errorf("used although a robot cannot follow: %v", err)
	}

	c := robot{robotclient.New([]string{s.Addresses().HTTP}, joined.Robot, joined.Secret, http.DefaultClient)}
	if chain := c.chain(t, joined.ServerKey); len(chain) != 1 || chain[0].Number != 2 || !chain[0].SignedBy(joined.ServerKey) || chain[0].Proof != nil {
		t.Errorf("announced: %+v", chain)
	}
	trouble("told of the next", "key 1 of 2", "asks for newer ones")
	next := c.chain(t, joined.ServerKey)[0].Key
	if chain := c.chain(t, next); len(chain) != 1 || chain[0].Proven() {
		t.Errorf("followed: %+v", chain)
	}
	trouble("followed")
	testkit.Must(t, operate(t, s, http.MethodPost, api.PathAdminKeys+"/use", KeyUse{}, nil))
	if chain := c.chain(t, next); len(chain) != 1 || !chain[0].Proven() {
		t.Errorf("in use: %+v", chain)
	}
	if chain := c.chain(t, make([]byte, 32)); len(chain) != 0 {
		t.Errorf("of a key that the service never had: %+v", chain)
	}
	trouble("of another database", "older backup", "join it again")
	testkit.Must(t, operate(t, s, http.MethodPost, api.PathAdminKeys+"/rotate", KeyRotation{Compromised: true}, nil))
	if chain := c.chain(t, next); len(chain) != 0 {
		t.Errorf("of a stolen key: %+v", chain)
	}
	trouble("stolen", "key 2", "stolen", "join it again")
}

// robot makes a robot's requests.
type robot struct{ *robotclient.Client }

func (c robot) chain(t *testing.T, key []byte) []wire.KeyStatement {
	t.Helper()
	chain, err := c.ServiceKeys(t.Context(), key)
	testkit.Must(t, err)
	return chain
}

// A key that is lost, and in no backup, is replaced by hand as the runbook says: its rows are
// deleted while nothing runs. The robots have to be joined again, and are named.
func TestLostKeyReplaced(t *testing.T) {
	t.Parallel()
	testkit.Slow(t)
	data := t.TempDir()
	settings := map[string]any{"data": data, "http.listen": "127.0.0.1:0", "metrics": "", "download.listen": "", "drop.listen": "", "stop": "1s"}
	s, stop := start(t, settings)
	var admitted manager.AdmitResponse
	testkit.Must(t, operate(t, s, http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: "r1"}, &admitted))
	testkit.Must(t, operate(t, s, http.MethodPost, wire.PathJoin, wire.JoinRequest{Token: admitted.Token, Version: "1", PublicKey: make([]byte, 32)}, nil))
	testkit.Must(t, operate(t, s, http.MethodPost, api.PathAdminKeys+"/rotate", KeyRotation{}, nil))
	testkit.Must(t, operate(t, s, http.MethodPost, api.PathAdminKeys+"/use", KeyUse{Leave: true}, nil))
	testkit.Must(t, stop())
	testkit.Must(t, os.Remove(filepath.Join(data, "receipt-2.key")))
	_, err := begin(t, data, settings)
	wantRefused(t, err, "receipt-2.key", "backup")

	d, err := db.Open(t.Context(), filepath.Join(data, "sheaf.db"))
	testkit.Must(t, err)
	for _, table := range []string{"service_key", "service_keys"} {
		_, err := d.ExecContext(t.Context(), `DELETE FROM `+table)
		testkit.Must(t, err)
	}
	testkit.Must(t, d.Close())
	_, err = begin(t, data, settings)
	wantRefused(t, err, "another installation", "database.fresh=true")
	settings["database.fresh"] = true
	s = run(t, settings)
	wantSigns(t, "replaced by hand", 1, s)
	var list KeyList
	testkit.Must(t, operate(t, s, http.MethodGet, api.PathAdminKeys, nil, &list))
	if len(list.Robots) != 1 || list.Robots[0].Robot != "r1" || !strings.Contains(list.Robots[0].Why, "join it again") {
		t.Errorf("robots that do not know the new key: %+v", list.Robots)
	}
}
