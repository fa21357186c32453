package manager_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/operators"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
	"sheaf/manager/roster"
)

// dns answers from a table. Other look-ups fail.
type dns map[string]string

func (d dns) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	all, ok := d[host] // with blanks between
	if !ok {
		return nil, errors.New("no such host")
	}
	var list []netip.Addr
	for a := range strings.FieldsSeq(all) {
		list = append(list, netip.MustParseAddr(a))
	}
	return list, nil
}

// service is a manager behind a server, with the methods of its parts.
type service struct {
	m *manager.Manager
	*roster.Roster
	*hosts.Registry
	*assign.Assignments
	*levelling.Leveller
	*httptest.Server
	t   *testing.T
	db  *sql.DB
	dir string
}

// partsOf returns a service of the manager, without a server.
func partsOf(t *testing.T, m *manager.Manager) *service {
	return &service{m: m, Roster: m.Roster, Registry: m.Hosts, Assignments: m.Assignments, Leveller: m.Levelling, t: t}
}

func start(t *testing.T, names dns) *service {
	t.Helper()
	return startWith(t, names, levelling.Settings{})
}

func startWith(t *testing.T, names dns, shared levelling.Settings) *service {
	t.Helper()
	dir := t.TempDir()
	d, err := db.Open(t.Context(), dbtest.Source(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	m := manager.New(d, manager.Options{Key: servicekey.Fixed(key), Dir: dir, Resolver: names, Balance: shared,
		Policy: hosts.Policy{Accept: []string{"jp", "test"}, Refuse: []string{"secret.jp"}},
		Gate: func(_ operators.Role, _ audit.Act, h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Operator") == "" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				h.ServeHTTP(w, r)
			})
		}})
	r := mux.NewRouter()
	m.Register(r)
	s := partsOf(t, m)
	s.Server, s.db, s.dir = httptest.NewServer(r), d, dir
	t.Cleanup(s.Close)
	return s
}

// robotKey is the key of every robot that joins.
var robotKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))

// join admits a robot, lets it join and subscribe, and returns its secret.
func (s *service) join(name string) string {
	s.t.Helper()
	token, _, err := s.Admit(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := s.Join(s.t.Context(), wire.JoinRequest{Token: token, PublicKey: robotKey.Public().(ed25519.PublicKey)})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.Subscribe(s.t.Context(), name); err != nil {
		s.t.Fatal(err)
	}
	return answer.Secret
}

func (s *service) add(urls ...string) {
	s.t.Helper()
	if _, err := s.AddHosts(s.t.Context(), urls, nil, assign.Replication{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) list(robot string) (int64, []string) {
	s.t.Helper()
	g, lines, err := s.List(s.t.Context(), robot)
	if err != nil {
		s.t.Fatal(err)
	}
	var urls []string
	for _, l := range lines {
		urls = append(urls, l.URL)
	}
	return g, urls
}

func (s *service) do(method, path, user, secret string, body []byte, header ...string) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.URL+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if user != "" {
		req.SetBasicAuth(user, secret)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(data)
}

func zip(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return b.Bytes()
}

func unzip(t *testing.T, data string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(data))
	if err != nil {
		t.Fatalf("not gzip: %q", data)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestOneTokenTwoJoiners(t *testing.T) {
	s := start(t, nil)
	token, _, err := s.Admit(t.Context(), "robot-1")
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = s.Join(context.Background(), wire.JoinRequest{Token: token, PublicKey: make([]byte, 32)})
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, roster.ErrToken) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d joined with one token", won)
	}
	if _, _, err := s.Admit(t.Context(), "robot-1"); !errors.Is(err, roster.ErrRobotExists) {
		t.Errorf("admitting it again: %v", err)
	}
}

func TestCredentials(t *testing.T) {
	s := start(t, nil)
	secret := s.join("robot-1")
	other := s.join("robot-2")
	for _, path := range []string{"/servlets/list?host=robot-1", "/v1/robots/robot-1/list", "/servlets/isrestart?host=robot-1"} {
		for name, c := range map[string]struct {
			user, secret string
			want         int
		}{
			"own": {"robot-1", secret, 200}, "none": {"", "", 401}, "wrong": {"robot-1", other, 401},
			"another's": {"robot-2", other, 403}, "unknown": {"robot-9", secret, 401}, "empty": {"robot-1", "", 401},
		} {
			if resp, body := s.do("GET", path, c.user, c.secret, nil); resp.StatusCode != c.want {
				t.Errorf("%s, %s credentials: %d %s, want %d", path, name, resp.StatusCode, body, c.want)
			}
		}
	}
	if _, err := s.RobotKey(t.Context(), "robot-1"); err != nil {
		t.Error(err)
	}
	if err := s.Revoke(t.Context(), "robot-1", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Authenticate(t.Context(), "robot-1", secret); !errors.Is(err, roster.ErrUnauthorized) {
		t.Errorf("after revoking: %v", err)
	}
	if _, err := s.RobotKey(t.Context(), "robot-1"); !errors.Is(err, roster.ErrUnknownRobot) {
		t.Errorf("key after revoking: %v", err)
	}
	if again := s.join("robot-1"); again == secret {
		t.Error("joined anew with the old secret")
	}
}

func TestAssignmentIsLevelStableAndByAddress(t *testing.T) {
	names := dns{"x1.test": "192.0.2.7", "x2.test": "192.0.2.7", "x3.test": "192.0.2.7"}
	s := start(t, names)
	s.join("r1")
	s.join("r2")
	s.add("http://a.test/", "http://b.test/", "http://a.test:8080/", "http://x1.test/", "http://x2.test/", "http://x3.test/start")
	_, one := s.list("r1")
	g2, two := s.list("r2")
	if len(one) != 3 || len(two) != 3 || !slices.Equal(one, []string{"http://x1.test/", "http://x2.test/", "http://x3.test/start"}) {
		t.Fatalf("r1 has %v, r2 has %v; want 3 and 3 with each address in one hand", one, two)
	}
	s.join("r3")
	if g, again := s.list("r2"); g != g2 || !slices.Equal(again, two) {
		t.Errorf("r2's list moved when r3 came: %v in generation %d", again, g)
	}
	if err := s.Unsubscribe(t.Context(), "r2"); err != nil {
		t.Fatal(err)
	}
	if _, three := s.list("r3"); !slices.Equal(three, two) {
		t.Errorf("r3, who has least, has %v; want %v", three, two)
	}
}

func TestNewcomerTakesAShare(t *testing.T) {
	s := start(t, dns{"x1.test": "192.0.2.7", "x2.test": "192.0.2.7", "x3.test": "192.0.2.7"})
	s.join("r1")
	s.add("http://a.test/", "http://b.test/", "http://c.test/", "http://x1.test/", "http://x2.test/", "http://x3.test/")
	s.join("r2")
	_, one := s.list("r1")
	_, two := s.list("r2")
	if len(one) != 3 || !slices.Equal(two, []string{"http://x1.test/", "http://x2.test/", "http://x3.test/"}) {
		t.Errorf("r1 has %v, r2 has %v; want three each, and an address in one hand", one, two)
	}
	s.join("r3")
	if _, three := s.list("r3"); len(three) != 1 {
		t.Errorf("r3 has %v; want one: a second would leave its giver with fewer", three)
	}
}

func TestReportedAddressBringsHostsTogether(t *testing.T) {
	s := start(t, nil)
	s.join("r1")
	secret := s.join("r2")
	if _, err := s.AddHosts(t.Context(), []string{"http://a.test/", "http://b.test/"}, map[string][]string{"a.test": {"192.0.2.1"}}, assign.Replication{}); err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"addresses":{"b.test":["192.0.2.1"]}}`)
	if resp, text := s.do("POST", "/v1/robots/r2/addresses", "r2", secret, body); resp.StatusCode != 204 {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	if _, one := s.list("r1"); len(one) != 2 {
		t.Errorf("r1 has %v, want both hosts of one address", one)
	}
	if resp, text := s.do("POST", "/v1/robots/r2/addresses", "r2", secret, body); resp.StatusCode != 403 {
		t.Errorf("for a host it has no more: %d %s", resp.StatusCode, text)
	}
}

func TestListETagAndHostsWithoutRobots(t *testing.T) {
	s := start(t, nil)
	s.add("http://a.test/")
	secret := s.join("r1") // takes what waited
	resp, body := s.do("GET", "/v1/robots/r1/list", "r1", secret, nil)
	if unzip(t, body) != "http://a.test/\n" || resp.Header.Get(wire.HeaderGeneration) != "1" {
		t.Fatalf("%q in generation %s", unzip(t, body), resp.Header.Get(wire.HeaderGeneration))
	}
	tag := resp.Header.Get("ETag")
	if resp, body := s.do("GET", "/servlets/list?host=r1", "r1", secret, nil, "If-None-Match", tag); resp.StatusCode != 304 || body != "" {
		t.Errorf("unchanged: %d", resp.StatusCode)
	}
	s.add("http://a.test/more")
	if resp, _ := s.do("GET", "/v1/robots/r1/list", "r1", secret, nil, "If-None-Match", tag); resp.StatusCode != 200 {
		t.Errorf("after a new seed: %d", resp.StatusCode)
	}
}

func TestDiscoveryFollowsThePolicy(t *testing.T) {
	s := start(t, nil)
	secret := s.join("r1")
	post := func(text string) (int, string) {
		resp, body := s.do("POST", "/servlets/record", "r1", secret, zip(text))
		return resp.StatusCode, body
	}
	if code, body := post("a.jp:80\nhttp://x.secret.jp/\nhttp://c.com/\nhttp://a.jp/2\n"); code != 200 || body != `{"accepted":1,"pending":1,"refused":1,"known":0}`+"\n" {
		t.Fatalf("%d %s", code, body)
	}
	if code, body := post("http://b.jp/\n\nhttp://d.jp/\n"); code != 400 || !strings.Contains(body, "line 2") {
		t.Errorf("an empty line: %d %s", code, body)
	}
	if code, body := post(strings.Repeat("\n", 17<<20)); code != 400 && code != 413 {
		t.Errorf("a bomb: %d %s", code, body)
	}
	if _, urls := s.list("r1"); !slices.Equal(urls, []string{"http://a.jp/", "http://a.jp/2"}) {
		t.Errorf("list is %v", urls)
	}
	if err := s.RemoveHost(t.Context(), "a.jp"); err != nil {
		t.Fatal(err)
	}
	if code, body := post("http://a.jp/\n"); code != 200 || !strings.Contains(body, `"known":1`) {
		t.Errorf("removed host reported: %d %s", code, body)
	}
	if _, urls := s.list("r1"); len(urls) != 0 {
		t.Errorf("a removed host came back: %v", urls)
	}
	s.add("http://c.com/") // the operator's word
	if _, urls := s.list("r1"); !slices.Equal(urls, []string{"http://c.com/"}) {
		t.Errorf("list is %v", urls)
	}
}

func TestLogsAreCountedOnce(t *testing.T) {
	s := start(t, nil)
	secret := s.join("r1")
	s.add("http://a.test/")
	var log bytes.Buffer
	lines := []wire.LogLine{{URL: "http://a.test/", Got: 100, Took: 5 * time.Millisecond}, {URL: "http://a.test:80/b", Got: 50, Took: time.Millisecond}, {URL: "news:x y", Got: 1}}
	if err := wire.WriteLog(&log, "r1.20261121", slices.Values(lines)); err != nil {
		t.Fatal(err)
	}
	for _, repeated := range []bool{false, true} {
		resp, body := s.do("POST", "/v1/robots/r1/submitlog", "r1", secret, log.Bytes())
		want := fmt.Sprintf(`{"name":"r1.20261121","lines":3,"hosts":1,"ignored":1,"repeated":%v}`+"\n", repeated)
		if resp.StatusCode != 200 || body != want {
			t.Errorf("%d %s want %s", resp.StatusCode, body, want)
		}
	}
	for name, c := range map[string]struct {
		body []byte
		want int
	}{
		"reuse":          {append([]byte("r1.20261121\n"), zip("")...), 409},
		"another's name": {append([]byte("r2.20261121\n"), zip("")...), 400},
		"escape":         {append([]byte("r1.../../x\n"), zip("")...), 400},
		"no name":        {zip(""), 400},
		"not gzip":       {[]byte("r1.2\nplain"), 400},
		"bad line":       {append([]byte("r1.2\n"), zip("nonsense\n")...), 400},
		"empty":          {nil, 400},
	} {
		if resp, body := s.do("POST", "/servlets/submitlog", "r1", secret, c.body); resp.StatusCode != c.want {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
	files, err := os.ReadDir(filepath.Join(s.dir, "logs"))
	if err != nil || len(files) != 1 || files[0].Name() != "r1.20261121.gz" {
		t.Errorf("kept: %v, %v", files, err)
	}
}

func TestRestart(t *testing.T) {
	s := start(t, nil)
	s.add("http://a.test/")
	secret := s.join("r1")
	ask := func(header ...string) string {
		_, body := s.do("GET", "/servlets/isrestart?host=r1", "r1", secret, nil, header...)
		return strings.TrimSpace(body)
	}
	old, _ := s.list("r1")
	if got := ask(); got != "CONTINUE" {
		t.Errorf("unasked: %s", got)
	}
	if _, err := s.Restart(t.Context(), "r1"); err != nil {
		t.Fatal(err)
	}
	with := []string{wire.HeaderGeneration, fmt.Sprint(old)}
	if a, b := ask(with...), ask(with...); a != "RESTART" || b != "RESTART" {
		t.Errorf("with the old generation: %s, %s; want RESTART until it has the new list", a, b)
	}
	fresh, _ := s.list("r1")
	if got := ask(wire.HeaderGeneration, fmt.Sprint(fresh)); fresh <= old || got != "CONTINUE" {
		t.Errorf("with the new generation %d: %s", fresh, got)
	}
	s.Restart(t.Context(), "r1")
	if a, b := ask(), ask(); a != "RESTART" || b != "CONTINUE" {
		t.Errorf("without a generation: %s, %s; want RESTART once", a, b)
	}
}

// What says nothing new is answered while others write. It does not wait for its turn and the disk.
func TestOldNewsIsNotWritten(t *testing.T) {
	s := start(t, nil)
	s.join("r1")
	note := func(from string, phase wire.Phase, at time.Time) error {
		return s.NoteAddress(t.Context(), "r1", netip.MustParseAddr(from), wire.Heartbeat{Phase: phase}, at)
	}
	now := time.Now()
	testkit.Must(t, note("192.0.2.1", wire.PhaseCollecting, now))
	err := db.Transact(t.Context(), s.db, nil, func(*sql.Tx) error {
		due, err := s.RestartDue(t.Context(), "r1", 0)
		if due {
			t.Error("a restart is due that nobody has ordered")
		}
		return errors.Join(err, note("192.0.2.1", wire.PhaseCollecting, now.Add(30*time.Second)), note("192.0.2.2", wire.PhaseClosed, now))
	})
	if err != nil {
		t.Errorf("while another writes: %v", err)
	}
}

func TestOperatorsAPI(t *testing.T) {
	s := start(t, nil)
	call := func(method, path, body string) (*http.Response, string) {
		return s.do(method, path, "", "", []byte(body), "X-Operator", "1")
	}
	if resp, _ := s.do("GET", "/v1/admin/robots", "", "", nil); resp.StatusCode != 401 {
		t.Errorf("without the operator's word: %d", resp.StatusCode)
	}
	_, body := call("POST", "/v1/admin/robots", `{"name":"r1"}`)
	var admitted manager.AdmitResponse
	if err := json.Unmarshal([]byte(body), &admitted); err != nil || len(admitted.Token) != 52 {
		t.Fatalf("%s: %v", body, err)
	}
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/v1/admin/robots", `{"name":"Robot 1"}`, 400},
		{"POST", "/v1/admin/robots", `{"nom":"r1"}`, 400},
		{"POST", "/v1/admin/robots/r1/restart", ``, 404}, // has not joined
		{"DELETE", "/v1/admin/robots/r9", ``, 404},
		{"POST", "/v1/admin/hosts", `{"hosts":["http://a.test/","gopher://b.test/"]}`, 400},
		{"POST", "/v1/admin/hosts", `{"hosts":["http://a.test/"],"addresses":{"a.test":["x"]}}`, 400},
		{"POST", "/v1/admin/hosts", `{"hosts":["http://a.test/","http://b.test/","http://c.test:81/"]}`, 200},
		{"DELETE", "/v1/admin/hosts/c.test:81", ``, 204},
		{"DELETE", "/v1/admin/hosts/nobody.test", ``, 404},
		{"GET", "/v1/admin/hosts?limit=x", ``, 400},
		{"GET", "/v1/admin/hosts?state=odd", ``, 400},
	} {
		if resp, body := call(c.method, c.path, c.body); resp.StatusCode != c.want {
			t.Errorf("%s %s %s: %d %s, want %d", c.method, c.path, c.body, resp.StatusCode, body, c.want)
		}
	}
	var names []string
	for after := ""; ; {
		var page manager.HostsResponse
		resp, body := call("GET", "/v1/admin/hosts?limit=2&after="+after, "")
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		for _, h := range page.Hosts {
			names = append(names, h.Name+"="+string(h.State))
		}
		if after = page.Next; after == "" {
			break
		}
		if !strings.Contains(resp.Header.Get("Link"), `rel="next"`) {
			t.Error("no Link to the next page")
		}
	}
	if got := strings.Join(names, " "); got != "a.test=accepted b.test=accepted c.test:81=refused" {
		t.Errorf("hosts are %s", got)
	}
}
