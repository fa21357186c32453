package robotd

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killedEnv holds the settings with which the test's binary runs as a robot.
const killedEnv = "ROBOTD_TEST_RUN_AS_ROBOT"

func TestMain(m *testing.M) {
	if text := os.Getenv(killedEnv); text != "" {
		os.Exit(runAsRobot(text))
	}
	os.Exit(m.Run())
}

func runAsRobot(settings string) int {
	var cfg Config
	err := json.Unmarshal([]byte(settings), &cfg)
	if err == nil {
		ctx, cancel := contextForChild()
		defer cancel()
		err = Run(ctx, cfg, slog.New(slog.DiscardHandler))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startRobot runs the test's own binary as a robot.
func startRobot(t testing.TB, cfg Config) *exec.Cmd {
	t.Helper()
	settings, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killedEnv+"="+string(settings))
	cmd.Stderr = t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A robot is killed again and again in the middle of its crawl. In the end every
// page is in the batches once, and none was fetched more often than the kills that
// met it in hand allow.
func TestKill(t *testing.T) {
	const pages, kills = 300, 8
	one, two := newSite(t, "127.0.0.21"), newSite(t, "127.0.0.22")
	one.tree("www.a.test", pages)
	two.tree("www.b.test", pages)
	s := newService(t, "http://www.a.test/", "http://www.b.test/")
	cfg := testConfig(t, s, map[string]string{"www.a.test": one.addr, "www.b.test": two.addr})
	cfg.Batch.Size = 60_000 // some batches are made under way
	fetched := func() int {
		n := 0
		for _, site := range []*site{one, two} {
			site.mu.Lock()
			for at, hits := range site.hits {
				if !strings.HasSuffix(at, "/robots.txt") {
					n += hits
				}
			}
			site.mu.Unlock()
		}
		return n
	}
	for i := range kills {
		cmd := startRobot(t, cfg)
		for deadline := time.Now().Add(10 * time.Second); fetched() < (i+1)*2*pages/(kills+2) && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	if err := startRobot(t, cfg).Wait(); err != nil {
		t.Fatal(err)
	}
	archived := make(map[string]int)
	for i := range s.batches {
		for _, host := range []string{"www.a.test", "www.b.test"} {
			for url := range s.cells(i, host) {
				archived[url]++
			}
		}
	}
	again := 0
	for _, site := range []*site{one, two} {
		for at, hits := range site.hits {
			if strings.HasSuffix(at, "/robots.txt") {
				continue
			}
			if n := archived["http://"+at]; n != 1 {
				t.Errorf("%s was fetched %d times and is in the batches %d times", at, hits, n)
			}
			again += hits - 1
		}
	}
	if len(archived) != 2*pages {
		t.Errorf("%d pages are in the batches, want %d", len(archived), 2*pages)
	}
	if again > 2*kills {
		t.Errorf("%d pages were fetched again; %d kills can have met one in hand on each of two hosts", again, kills)
	}
	t.Logf("%d kills, %d batches, %d pages fetched again", kills, len(s.batches), again)
}

// contextForChild bounds a robot whose test went away.
func contextForChild() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Minute)
}
