package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sheaf/internal/lease"
	"sheaf/internal/testkit"
)

// As one of the processes of TestProcesses, the test's program serves and contends until it is
// killed.
func TestMain(m *testing.M) {
	if os.Getenv("QUORUM_ADDRESS") != "" {
		if err := contend(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testkit.InMemory(m)
}

const processTTL = 2 * time.Second

// contend is a process that is a server, and that holds a name again and again to write to what the
// judge guards.
func contend() error {
	address := os.Getenv("QUORUM_ADDRESS")
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	l, err := Open(Options{
		Options: lease.Options{TTL: processTTL}, Members: strings.Split(os.Getenv("QUORUM_MEMBERS"), ","), Secret: []byte("a secret"),
		Listener: listener, Address: address, File: os.Getenv("QUORUM_FILE"),
	})
	if err != nil {
		return err
	}
	for {
		err := l.Do(context.Background(), "name", func(ctx context.Context, token int64) error {
			for range 3 {
				resp, err := http.Post(fmt.Sprintf("%s?who=%s.%d&token=%d", os.Getenv("QUORUM_JUDGE"), address, os.Getpid(), token), "", nil)
				if err != nil {
					return err
				}
				resp.Body.Close()
			}
			return nil
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// turns is what the judge has accepted: one writer for each token, and tokens that rise.
type turns struct {
	t  *testing.T
	mu sync.Mutex // guards what follows

	token   int64
	who     string
	n       int
	refused int
}

func (j *turns) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseInt(r.FormValue("token"), 10, 64)
	if err != nil {
		j.t.Error(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch who := r.FormValue("who"); {
	case token < j.token:
		j.refused++ // of a process that was stopped meanwhile
	case token > j.token:
		j.token, j.who = token, who
		j.n++
	case who != j.who:
		j.t.Errorf("%s and %s both hold the name by %d", who, j.who, token)
	}
}

func (j *turns) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.n
}

// Real processes that are killed and started again, and stopped for longer than their tokens are
// lent, never hold the name at once, and the others go on.
func TestProcesses(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	j := &turns{t: t}
	judge := httptest.NewServer(j)
	defer judge.Close()
	dir := t.TempDir()
	members := testkit.Addresses(t, 3)
	start := func(n int) *testkit.Process {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "QUORUM_ADDRESS="+members[n], "QUORUM_MEMBERS="+strings.Join(members, ","),
			"QUORUM_FILE="+filepath.Join(dir, fmt.Sprint(n, ".json")), "QUORUM_JUDGE="+judge.URL)
		return testkit.Start(t, "", cmd)
	}
	var processes []*testkit.Process
	for n := range members {
		processes = append(processes, start(n))
	}
	random := rand.New(rand.NewPCG(1, 2))
	var longest time.Duration // from a kill to the next turn
	rounds := 3
	if testkit.Full() {
		rounds = 10
	}
	for range rounds {
		before := j.count()
		testkit.Until(t, "turns", func() bool { return j.count() > before+5 })
		n := random.IntN(len(members))
		if random.IntN(2) == 0 {
			processes[n].Kill()
			before, died := j.count(), time.Now()
			testkit.Until(t, "turns of the other two", func() bool { return j.count() > before })
			longest = max(longest, time.Since(died))
			testkit.Until(t, "more turns of the other two", func() bool { return j.count() > before+5 })
			processes[n] = start(n)
			continue
		}
		testkit.Must(t, processes[n].Process.Signal(syscall.SIGSTOP))
		before = j.count()
		testkit.Until(t, "turns while one is stopped", func() bool { return j.count() > before+5 })
		testkit.Must(t, processes[n].Process.Signal(syscall.SIGCONT))
	}
	t.Logf("%d turns, %d writes refused; after a kill the name was held again within %v, tokens are lent for %v", j.count(), j.refused, longest, processTTL)
}
