package crash

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/jlaffaye/ftp"

	"sheaf/archive/naming"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/serve/account"
)

// TestDatabaseAway stops PostgreSQL under one process that manages and ingests and two that only
// serve. For the configured time consumers with known accounts go on at both nodes, by HTTP and
// FTP. It is over during the test at one of them, after 6 s (25 s in the long form). What they
// fetch is recorded when the database is back, and everything goes on.
func TestDatabaseAway(t *testing.T) {
	notShort(t)
	t.Parallel()
	offline := []time.Duration{6 * time.Second, testkit.Patience} // of the nodes
	if long() {
		offline[0] = 25 * time.Second
	}
	cluster := dbtest.Start(t)
	s := newSplit(t, testkit.Build(t, "sheaf/cmd/sheaf"), cluster.URL, offline, nil)
	r := s.join("waseda")
	s.add(r.Name, 2)
	s.fetchList(r)
	spool := newSpool(t)
	bring := func(n int64) *madeBatch {
		c := r.make(t, n, 2, 4<<10, r.hosts[0])
		testkit.Must(t, spool.add(c))
		testkit.Must(t, s.uploader(r, spool, byHTTP).Drain(t.Context()))
		return c
	}
	first := bring(1)
	for _, name := range []string{"alice", "bob"} {
		testkit.Must(t, s.nodes[0].operate(http.MethodPost, api.PathAdminAccounts,
			account.NewAccount{Account: account.Account{Name: name, Domains: []string{"*"}}, Password: name + "'s"}, nil))
	}
	path := "/" + naming.HostPath(r.hosts[0]) + "/all.tar.gz"
	for _, n := range s.nodes { // bob never comes before the database goes; a node learns of him within a minute
		testkit.Eventually(t, "the batch is there for alice", func() error { return n.wants(200, path, "alice", "alice's") })
	}
	s.nodes[1].program.kill() // it learns of all accounts when it starts
	s.nodes[1].up()

	testkit.Must(t, s.nodes[0].wants(200, path, "alice", "alice's"))
	heard := time.Now()
	cluster.Stop()
	if err := s.nodes[0].wants(200, path, "alice", "alice's"); err != nil && time.Since(heard) < offline[0]/2 {
		t.Error(err)
	}
	for _, name := range []string{"alice", "bob"} {
		testkit.Must(t, s.nodes[1].wants(200, path, name, name+"'s"))
		testkit.Must(t, s.nodes[1].wants(401, path, name, "a guess"))
		s.nodes[1].retrieve(path, name, name+"'s", first)
	}
	testkit.Must(t, s.nodes[1].wants(401, path, "carol", ""))
	for h, want := range map[*running]int{s.head: 503, s.nodes[0]: 200, s.nodes[1]: 200} {
		testkit.Eventually(t, "health says that the database is away", func() error { // it looks every few seconds
			if status, health := h.health(); status != want || health.Database != "away" {
				return fmt.Errorf("health %d, %+v, with roles %v; want %d", status, health, h.settings["roles"], want)
			}
			return nil
		})
	}
	testkit.Eventually(t, "known accounts go on for the configured time only", func() error {
		return s.nodes[0].wants(503, path, "alice", "alice's")
	})
	if spent := time.Since(heard); spent < offline[0]/2 {
		t.Errorf("accounts went on for %v only", spent)
	}

	cluster.Start(t)
	back := time.Now()
	bring(2)
	t.Logf("with the database back, a batch is published after %.2f s", time.Since(back).Seconds())
	for _, n := range s.nodes {
		testkit.Eventually(t, "alice is let in again", func() error { return n.wants(200, path, "alice", "alice's") })
	}
	testkit.Eventually(t, "what was fetched meanwhile is noted", func() error {
		var list transfers.Document
		if err := s.head.operate(http.MethodGet, api.PathTransfers+"?who=bob&direction=download", nil, &list); err != nil {
			return err
		}
		if n := len(list.Transfers); n < 2 {
			return fmt.Errorf("%d downloads of bob's are noted", n)
		}
		return nil
	})
	left := names(t, filepath.Join(s.data, "buffers", "batches"))
	for _, n := range append(s.nodes, s.head) {
		n.program.kill()
	}
	if len(left) > 1 {
		t.Errorf("in the buffers lies %v", left)
	}
}

// split is a service whose roles run in several processes.
type split struct {
	*installation          // as robots and operators see the head
	head          *running // manages and ingests
	nodes         []*running
}

// newSplit starts one process that manages and ingests, and two that serve. offline is
// access.offline of these two.
func newSplit(t *testing.T, sheaf, database string, offline []time.Duration, more map[string]any) *split {
	t.Helper()
	s := &split{installation: newInstallation(t, "")}
	maps.Copy(s.settings, more)
	s.settings["database.url"] = database
	delete(s.settings, "access.anonymous")
	for n, roles := range []string{"manager,ingest", "serve", "serve"} {
		h := *s.installation
		h.settings = maps.Clone(s.settings)
		h.settings["roles"] = roles
		if n > 0 {
			h.settings["access.offline"] = offline[n-1].String()
			listen := testkit.Addresses(t, 2)
			h.settings["http.listen"], h.settings["download.listen"] = listen[0], listen[1]
		}
		h.log = fmt.Sprint(s.log, n)
		p := &running{installation: &h, program: &program{t: t, path: sheaf, log: h.log, args: append([]string{"serve"}, h.flags()...)}}
		p.up()
		if n == 0 {
			s.head = p
		} else {
			s.nodes = append(s.nodes, p)
		}
	}
	s.process = s.head.process
	return s
}

// up starts the process, and waits until it reports that it is well.
func (h *running) up() {
	h.t.Helper()
	h.program.start()
	h.ready()
}

// ready waits until the process that was started reports that it is well.
func (h *running) ready() {
	h.t.Helper()
	h.program.life.Ready(h.t, func() error {
		token, err := service.ReadToken(h.data)
		if err != nil {
			return err
		}
		h.process = &process{hello: hello{Token: token}}
		if status, health := h.health(); status != http.StatusOK {
			return fmt.Errorf("health %d: %+v", status, health)
		}
		return nil
	})
}

func (h *running) health() (status int, health service.Health) {
	resp, err := http.Get(h.url() + api.PathHealth)
	if err != nil {
		return 0, health
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&health); err != nil {
		return 0, health
	}
	return resp.StatusCode, health
}

// wants requests a file of the tree and expects a status.
func (h *running) wants(status int, path, name, password string) error {
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url()+"/pub"+path, nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth(name, password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != status {
		return fmt.Errorf("%s gets %s with %d bytes; want %d", name, resp.Status, len(body), status)
	}
	return nil
}

// retrieve fetches a file by FTP, and compares it with what was sent.
func (h *running) retrieve(path, name, password string, sent *madeBatch) {
	h.t.Helper()
	conn, err := ftp.Dial(h.settings["download.listen"].(string), ftp.DialWithTimeout(testkit.Patience))
	testkit.Must(h.t, err)
	defer conn.Quit()
	testkit.Must(h.t, conn.Login(name, password))
	r, err := conn.Retr(path)
	testkit.Must(h.t, err)
	data, err := io.ReadAll(r)
	testkit.Must(h.t, err)
	testkit.Must(h.t, r.Close())
	want := map[string][]byte{}
	for _, p := range sent.pages {
		want[naming.FileName(p.host, p.url)] = p.body
	}
	h.comparePages("ftp", sent.pages[0].host, data, want)
}
