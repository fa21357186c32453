package robotd

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// synthweb is the shared folder's synthetic web, run as a process of its own.
type synthweb struct {
	*testkit.Process
	t     testing.TB
	ctl   string
	seeds []string
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

// newSynthweb starts a synthetic web, until the test ends.
func newSynthweb(t testing.TB, args ...string) *synthweb {
	t.Helper()
	bin := testkit.BuildShared(t, "synthweb")
	seeds := filepath.Join(t.TempDir(), "seeds")
	free := testkit.Addresses(t, 2)
	s := &synthweb{t: t, ctl: free[0]}
	s.Process = testkit.Start(t, "", exec.Command(bin, append([]string{"-ctl", s.ctl, "-port", portOf(t, free[1]), "-seeds", seeds}, args...)...))
	s.Ready(t, func() error { _, err := s.ask(); return err }) // once it answers, its hosts listen and the seeds are written
	text, err := os.ReadFile(seeds)
	testkit.Must(t, err)
	s.seeds = strings.Fields(string(text))
	return s
}

func portOf(t testing.TB, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	testkit.Must(t, err)
	return port
}

// stop notes the figures and ends the process.
func (s *synthweb) stop() {
	s.last = s.stats()
	s.Kill()
}

func (s *synthweb) stats() (st synthStats) {
	s.t.Helper()
	testkit.Eventually(s.t, "synthweb's figures", func() (err error) {
		st, err = s.ask()
		return err
	})
	return st
}

func (s *synthweb) ask() (st synthStats, err error) {
	resp, err := http.Get("http://" + s.ctl + "/stats")
	if err != nil {
		return st, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&st)
	return st, err
}
