package crash

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/serve/client"
	"sheaf/test/batchtest"
)

// installation is a data directory and the service that runs on it, which is started again and
// again at the same addresses, because robots remember them.
type installation struct {
	t        testing.TB
	data     string
	log      string
	settings map[string]any
	robots   int // that have joined
	*process     // the process that runs now, or the last one
}

// newInstallation makes a data directory, empty or as a copy of another.
func newInstallation(t testing.TB, from string) *installation {
	t.Helper()
	dir := t.TempDir()
	h := &installation{t: t, data: filepath.Join(dir, "data"), log: filepath.Join(dir, "service.log")}
	if from != "" {
		copyTree(t, from, h.data)
	}
	listen := testkit.Addresses(t, 3)
	h.settings = map[string]any{
		"data": h.data, "http.listen": listen[0], "metrics": "", "download.listen": listen[1], "drop.listen": listen[2],
		"publish.window": "always", "balance.at": "", "access.anonymous": "*", "poll": "200ms", "stop": "1s",
		"uploads.full": 100,
	}
	t.Cleanup(func() {
		if t.Failed() && exists(h.log) {
			t.Log(testkit.Tail(h.log))
		}
	})
	return h
}

// start starts the service, which kills itself at die, unless that is nil.
func (h *installation) start(die *death) *installation {
	h.t.Helper()
	h.process = start(h.t, order{Settings: h.settings, Die: die}, h.log)
	return h
}

// url returns the service's URL, also while it does not run.
func (h *installation) url() string { return "http://" + h.settings["http.listen"].(string) }

func (h *installation) operate(method, path string, in, out any) error {
	c, err := client.Operator(h.url(), h.Token)
	if err != nil {
		return err
	}
	return c.Do(context.Background(), method, path, in, out)
}

// robot is a robot that the service knows. It makes batches of the hosts that it was assigned.
type robot struct {
	*batchtest.Robots
	secret string
	server ed25519.PublicKey
	hosts  []string
}

// join admits a robot, by the robots' protocol.
func (h *installation) join(name string) *robot {
	h.t.Helper()
	r := &robot{Robots: batchtest.NewRobots(h.t)}
	r.Name = name
	var admitted manager.AdmitResponse
	testkit.Must(h.t, h.operate(http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: name}, &admitted))
	var joined wire.JoinResponse
	h.ask(http.MethodPost, wire.PathJoin, nil, wire.JoinRequest{Token: admitted.Token, Version: "test", PublicKey: r.Key.Public().(ed25519.PublicKey)}, &joined)
	r.secret, r.server = joined.Secret, joined.ServerKey
	h.ask(http.MethodPost, strings.ReplaceAll(wire.PathSubscribe, "{robot}", name), r, nil, nil)
	return r
}

// add adds n hosts called after a robot. Where several robots are to have hosts, all join before: a
// host that moves on to a newcomer waits there until its former robot has stopped.
func (h *installation) add(name string, n int) {
	h.t.Helper()
	add := manager.HostsRequest{Addresses: map[string][]string{}}
	for i := range n {
		host := fmt.Sprintf("www%d.%s.example.jp", i+1, name)
		add.Hosts = append(add.Hosts, "http://"+host+"/")
		add.Addresses[host] = []string{fmt.Sprintf("198.18.%d.%d", h.robots, i+1)} // no look-up, and no host shares an address
	}
	h.robots++
	testkit.Must(h.t, h.operate(http.MethodPost, api.PathAdminHosts, add, nil))
}

// fetchList fetches the robot's hosts and the generation for its batches.
func (h *installation) fetchList(r *robot) {
	h.t.Helper()
	resp := h.ask(http.MethodGet, strings.ReplaceAll(wire.PathList, "{robot}", r.Name), r, nil, nil)
	var err error
	r.Generation, err = strconv.ParseInt(resp.Header.Get(wire.HeaderGeneration), 10, 64)
	testkit.Must(h.t, err)
	r.hosts = nil
	for l, err := range wire.ReadHostList(resp.Body, 1<<20) {
		testkit.Must(h.t, err)
		_, host, err := wire.NormalizeURL(l.URL)
		testkit.Must(h.t, err)
		r.hosts = append(r.hosts, host)
	}
	if len(r.hosts) < 2 {
		h.t.Fatalf("robot %s was assigned %q; the test wants two hosts at least", r.Name, r.hosts)
	}
}

// ask sends a request, with the robot's credentials unless as is nil.
func (h *installation) ask(method, path string, as *robot, in, out any) *http.Response {
	h.t.Helper()
	body, err := json.Marshal(in)
	testkit.Must(h.t, err)
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url()+path, bytes.NewReader(body))
	testkit.Must(h.t, err)
	if as != nil {
		req.SetBasicAuth(as.Name, as.secret)
	}
	resp, err := http.DefaultClient.Do(req)
	testkit.Must(h.t, err)
	h.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode >= 300 {
		h.t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
	if out != nil {
		testkit.Must(h.t, json.NewDecoder(resp.Body).Decode(out))
	}
	return resp
}

// ledger queries a copy of the killed service's database. A query of the database itself would
// repair what the next start has to.
func (h *installation) ledger(query string, each func(scan func(...any) error) error) {
	h.t.Helper()
	dir := h.t.TempDir()
	defer os.RemoveAll(dir)
	files, err := filepath.Glob(filepath.Join(h.data, "sheaf.db*"))
	testkit.Must(h.t, err)
	for _, f := range files {
		if strings.HasSuffix(f, "-shm") {
			continue // the index of the -wal, which SQLite makes again
		}
		data, err := os.ReadFile(f)
		testkit.Must(h.t, err)
		testkit.Must(h.t, os.WriteFile(filepath.Join(dir, filepath.Base(f)), data, 0o600))
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "sheaf.db"))
	testkit.Must(h.t, err)
	defer db.Close()
	rows, err := db.Query(query)
	testkit.Must(h.t, err)
	defer rows.Close()
	for rows.Next() {
		testkit.Must(h.t, each(rows.Scan))
	}
	testkit.Must(h.t, rows.Err())
}

// state returns the state of a batch in the ledger of the killed service, or "" if it has no row.
func (h *installation) state(id wire.BatchID) (state wire.State) {
	h.t.Helper()
	h.ledger(`SELECT state FROM ingest_batches WHERE id = '`+string(id)+`'`, func(scan func(...any) error) error { return scan(&state) })
	return state
}
