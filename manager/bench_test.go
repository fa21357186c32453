package manager_test

import (
	"bytes"
	"crypto/ed25519"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/sys/unix"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/servicekey"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/hosts"
	"sheaf/manager/levelling"
)

// BenchmarkAtSize does what a manager of SHEAF_BENCH_HOSTS hosts (default 5,000) and
// SHEAF_BENCH_ROBOTS robots (default 32) does, and reports the seconds of each step.
// SHEAF_TEST_DATABASE=postgres chooses the other database.
//
//	SHEAF_BENCH_HOSTS=1000000 SHEAF_BENCH_ROBOTS=1000 \
//		go test -run '^$' -bench AtSize -benchtime 1x -timeout 1h ./manager
func BenchmarkAtSize(b *testing.B) {
	for b.Loop() {
		d, err := db.Open(b.Context(), dbtest.Source(b))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { d.Close() })
		s := newAtSize(b, d, fromEnvironment("SHEAF_BENCH_HOSTS", 5000), fromEnvironment("SHEAF_BENCH_ROBOTS", 32))
		s.report = b.ReportMetric
		s.play()
	}
	b.ReportMetric(0, "ns/op")
}

func fromEnvironment(variable string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return otherwise
	}
	return n
}

type atSize struct {
	b       testing.TB
	report  func(n float64, unit string)
	m       *manager.Manager
	router  *mux.Router
	hosts   int
	robots  []string
	db      *sql.DB
	secrets map[string]string
}

func newAtSize(b testing.TB, d *sql.DB, size, robots int) *atSize {
	b.Helper()
	m := manager.New(d, manager.Options{Key: servicekey.Fixed(ed25519.NewKeyFromSeed(make([]byte, 32))), Dir: b.TempDir(), Resolver: dns{}, Log: slog.New(slog.DiscardHandler),
		Policy: hosts.Policy{Accept: []string{"test"}}, Balance: levelling.Settings{During: true, Window: 6 * time.Hour}})
	s := &atSize{b: b, report: func(float64, string) {}, m: m, db: d, router: mux.NewRouter(), hosts: size, secrets: map[string]string{}}
	m.Register(s.router)
	for i := range robots {
		s.join(fmt.Sprintf("r%04d", i))
	}
	return s
}

func (s *atSize) join(name string) {
	token, _, err := s.m.Roster.Admit(s.b.Context(), name)
	if err != nil {
		s.b.Fatal(err)
	}
	answer, err := s.m.Roster.Join(s.b.Context(), wire.JoinRequest{Token: token, PublicKey: make([]byte, 32)})
	if err == nil {
		err = s.m.Roster.Subscribe(s.b.Context(), name)
	}
	if err != nil {
		s.b.Fatal(err)
	}
	s.robots, s.secrets[name] = append(s.robots, name), answer.Secret
}

// took reports the seconds since the beginning of a step.
func (s *atSize) took(step string, began time.Time) {
	s.b.Logf("%s: %.3f s", step, time.Since(began).Seconds()) // at once: a large one takes long
	s.report(time.Since(began).Seconds(), "s/"+step)
}

// cpu returns the seconds of CPU that this process has used.
func cpu() float64 {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
		return math.NaN()
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

// peak returns the most memory that this process has had, in MB.
func peak() float64 {
	status, _ := os.ReadFile("/proc/self/status") // another system has none: NaN
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	kb, err := strconv.ParseFloat(string(bytes.TrimSuffix(bytes.TrimSpace(bytes.SplitN(rest, []byte("\n"), 2)[0]), []byte(" kB"))), 64)
	if err != nil {
		return math.NaN()
	}
	return kb / 1024
}

func (s *atSize) call(method, path, robot string, body []byte, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, "/v1/robots/"+robot+path, bytes.NewReader(body)).WithContext(s.b.Context())
	req.SetBasicAuth(robot, s.secrets[robot])
	req.Header.Set(wire.HeaderAccept, wire.AcceptAdditions) // as robotd does
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.router.ServeHTTP(w, req)
	if w.Code/100 != 2 && w.Code != http.StatusNotModified {
		s.b.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w
}

func (s *atSize) url(n int) string { return fmt.Sprintf("http://h%07d.test/", n) }

func (s *atSize) play() {
	ctx := s.b.Context()
	began := time.Now()
	const atOnce = 10_000 // as a robot reports what it found
	for from := 0; from < s.hosts; from += atOnce {
		var lines []wire.HostLine
		for n := from; n < min(from+atOnce, s.hosts); n++ {
			lines = append(lines, wire.HostLine{URL: s.url(n)})
		}
		if _, err := s.m.Hosts.Discover(ctx, s.robots[0], lines); err != nil {
			s.b.Fatal(err)
		}
	}
	s.took("hosts-found", began)

	began = time.Now()
	if _, err := s.m.Hosts.Discover(ctx, s.robots[0], []wire.HostLine{{URL: "http://one.more.test/"}}); err != nil {
		s.b.Fatal(err)
	}
	s.took("one-found", began)

	began = time.Now()
	list := s.call("GET", "/list", s.robots[0], nil)
	s.took("list", began)
	began = time.Now()
	s.call("GET", "/list", s.robots[0], nil, "If-None-Match", list.Header().Get("ETag"))
	s.took("list-unchanged", began)
	s.lists()

	began = time.Now()
	s.submitLogs()
	s.took("logs", began)

	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins anew
		s.b.Log(err)
	}
	spent := cpu()
	began = time.Now()
	plan, err := s.m.Levelling.Rebalance(ctx, false)
	if err != nil {
		s.b.Fatal(err)
	}
	s.took("plan", began)
	s.quantity(cpu()-spent, "CPU-s/plan")
	s.quantity(peak(), "MB-peak/plan")
	s.report(float64(plan.Moved), "moved")
	s.report(plan.Makespan/plan.Bound, "makespan/bound")

	s.heartbeats()
	s.lookUps()
	s.beat(s.robots[1], wire.PhaseIdle)
	began = time.Now()
	s.beat(s.robots[0], wire.PhaseCollecting)
	s.took("hand-over", began)
	began = time.Now()
	s.beat(s.robots[2], wire.PhaseIdle)
	s.took("heartbeat", began)
	began = time.Now()
	if _, err := s.m.Levelling.Status(ctx); err != nil {
		s.b.Fatal(err)
	}
	s.took("balance-show", began)
	began = time.Now()
	if _, err := s.m.Roster.Robots(ctx); err != nil {
		s.b.Fatal(err)
	}
	s.took("robot-ls", began)
	began = time.Now()
	if err := s.m.Roster.Unsubscribe(ctx, s.robots[0]); err != nil {
		s.b.Fatal(err)
	}
	s.took("robot-leaves", began)
}

func (s *atSize) beat(robot string, phase wire.Phase) {
	s.call("POST", "/heartbeat", robot, fmt.Appendf(nil, `{"version":"1","phase":%q,"cycle":1,"left":1000,"pages":1,"all":true}`, phase))
}

// submitLogs submits logs in which each host is measured by its robot and by one other.
// hadBefore lets a robot have had hosts of another, so that what they cost it counts.
func (s *atSize) hadBefore(robot string, lines []wire.HostLine) {
	for _, l := range lines {
		_, host, err := wire.NormalizeURL(l.URL)
		testkit.Must(s.b, err)
		_, err = s.db.ExecContext(s.b.Context(), `INSERT INTO assignments (host, robot, from_generation, to_generation, ended) VALUES (?, ?, 0, 0, 1) ON CONFLICT DO NOTHING`, host, robot)
		testkit.Must(s.b, err)
	}
}

func (s *atSize) submitLogs() {
	rnd := rand.New(rand.NewPCG(1, uint64(s.hosts)))
	for i, robot := range s.robots {
		_, lines, err := s.m.Assignments.List(s.b.Context(), robot)
		if err != nil {
			s.b.Fatal(err)
		}
		other := s.robots[(i+1)%len(s.robots)]
		s.hadBefore(other, lines)
		for _, name := range []string{robot, other} {
			var log bytes.Buffer
			err := wire.WriteLog(&log, name+".of-"+robot, func(yield func(wire.LogLine) bool) {
				for _, l := range lines {
					kb := 200 * (0.2 + rnd.ExpFloat64())
					if !yield(wire.LogLine{URL: l.URL, Got: int64(kb * 1024), Took: time.Duration(kb*100*(0.3+rnd.ExpFloat64())) * time.Millisecond}) {
						return
					}
				}
			})
			if err != nil {
				s.b.Fatal(err)
			}
			body, err := io.ReadAll(&log)
			if err != nil {
				s.b.Fatal(err)
			}
			s.call("POST", "/submitlog", name, body)
		}
	}
}
