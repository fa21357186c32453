package servetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// Process is a server that is measured. It may consist of several processes.
type Process struct {
	Addr   string // host:port
	Secure bool   // it speaks TLS
	PIDs   []int
	Kill   func() // ends it as a power cut would, and waits for its end; nil: it cannot be
}

// CPU returns the time that the processes, and their children that have ended, have used in user
// and system mode.
func (p *Process) CPU(t testing.TB) time.Duration {
	t.Helper()
	ticks := 0
	for _, pid := range p.PIDs {
		for range 100 { // until its children, if it has any, have ended and were waited for
			time.Sleep(50 * time.Millisecond)
			if of, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err != nil || len(of) == 0 {
				break
			}
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		testkit.Must(t, err)
		_, rest, _ := strings.Cut(string(text), ") ")
		for _, field := range strings.Fields(rest)[11:15] { // utime, stime, cutime, cstime
			n, err := strconv.Atoi(field)
			testkit.Must(t, err)
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}

// Settle waits until the processes have used no CPU for a second.
func (p *Process) Settle(t testing.TB) {
	t.Helper()
	for last, same := p.CPU(t), 0; same < 20; same++ {
		if now := p.CPU(t); now != last {
			last, same = now, 0
		}
	}
}

// Measured says what a server has sent, and the time and CPU that it took.
type Measured struct {
	N         int64 // bytes, or files
	Took, CPU time.Duration
	Each      []time.Duration // how long each request took; may be empty
}

// Add adds another measurement's numbers to this one's.
func (m *Measured) Add(o Measured) {
	m.N, m.Took, m.CPU, m.Each = m.N+o.N, m.Took+o.Took, m.CPU+o.CPU, append(m.Each, o.Each...)
}

// Requests returns requests a second.
func (m Measured) Requests() float64 { return float64(len(m.Each)) / m.Took.Seconds() }

// Slow returns the 99th percentile of the requests' times. Each must not be empty.
func (m Measured) Slow() time.Duration {
	all := slices.Sorted(slices.Values(m.Each))
	return all[len(all)*99/100]
}

// Rate returns bytes, or files, a second.
func (m Measured) Rate() float64 { return float64(m.N) / m.Took.Seconds() }

// PerGiB returns the server's CPU seconds for 2³⁰ bytes.
func (m Measured) PerGiB() float64 { return m.CPU.Seconds() / (float64(m.N) / (1 << 30)) }

// Number returns an environment variable's value if that is a positive number, and otherwise the
// default.
func Number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

var returned = regexp.MustCompile(`(?m)^\d+ +(?:(\w+)\(|<\.\.\. (\w+) resumed).* = (\d+)$`)

// Moved runs f and returns how many bytes each of the given system calls of the process moved
// meanwhile, as their return values say.
func (p *Process) Moved(t testing.TB, calls []string, f func()) map[string]int {
	t.Helper()
	log := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command(testkit.Tool(t, "strace"), "-f", "-e", "trace="+strings.Join(calls, ","), "-o", log, "-p", strconv.Itoa(p.PIDs[0]))
	says, err := cmd.StderrPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	if line, err := bufio.NewReader(says).ReadString('\n'); err != nil || !strings.Contains(line, "attached") {
		cmd.Process.Kill()
		cmd.Wait()
		testkit.Missing(t, "strace may not attach to a process here: %s, %v", line, err)
	}
	f()
	cmd.Process.Signal(os.Interrupt) // it detaches
	cmd.Wait()
	text, err := os.ReadFile(log)
	testkit.Must(t, err)
	moved := make(map[string]int)
	for _, m := range returned.FindAllStringSubmatch(string(text), -1) {
		n, _ := strconv.Atoi(m[3]) // digits
		moved[m[1]+m[2]] += n
	}
	return moved
}
