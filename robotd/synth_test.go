package robotd

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// synthweb is the shared folder's synthetic web, run as a process of its own.
type synthweb struct {
	t     testing.TB
	ctl   string
	seeds []string
	cmd   *exec.Cmd
	last  synthStats // as stop found them
}

// synthStats is what synthweb saw from the servers' side.
type synthStats struct {
	Requests    int64   `json:"requests"`
	Pages       int64   `json:"pages"`
	Unique      int64   `json:"unique_pages"`
	Total       int64   `json:"total_pages"`
	Connections int64   `json:"conns"`
	Robots      int64   `json:"robots"`
	Private     int64   `json:"private"`
	Other       int64   `json:"other"`
	Seconds     float64 `json:"seconds_first_to_last"`
	ByIP        tracks  `json:"by_ip"`
	ByHost      tracks  `json:"by_host"`
}

type tracks struct {
	N              int     `json:"n"`
	MaxConcurrency int     `json:"max_concurrency"`
	MinGap         float64 `json:"min_gap_s"`
	MedianMinGap   float64 `json:"median_min_gap_s"`
}

// buildShared builds a program of the shared folder.
func buildShared(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(testkit.Shared(t), name)
	bin := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-o", bin, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", name, err, out)
	}
	return bin
}

// freePort returns a port that nothing listens on at the moment.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func newSynthweb(t testing.TB, args ...string) *synthweb {
	t.Helper()
	bin := buildShared(t, "synthweb")
	seeds := filepath.Join(t.TempDir(), "seeds")
	s := &synthweb{t: t, ctl: "127.0.0.1:" + freePort(t)}
	s.cmd = exec.Command(bin, append([]string{"-ctl", s.ctl, "-port", freePort(t), "-seeds", seeds}, args...)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "synthweb:") {
		t.Fatalf("synthweb: %q, %v", line, err)
	}
	text, err := os.ReadFile(seeds)
	if err != nil {
		t.Fatal(err)
	}
	s.seeds = strings.Fields(string(text))
	return s
}

func (s *synthweb) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// stop notes the figures and ends the process.
func (s *synthweb) stop() {
	s.last = s.stats()
	s.kill()
}

func (s *synthweb) stats() synthStats {
	s.t.Helper()
	var st synthStats
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get("http://" + s.ctl + "/stats")
		if err == nil {
			err = json.NewDecoder(resp.Body).Decode(&st)
			resp.Body.Close()
		}
		if err == nil {
			return st
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
	}
}
