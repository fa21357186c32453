package servetest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

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
