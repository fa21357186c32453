package crash

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// process is one process of the service.
type process struct {
	hello
	cmd  *exec.Cmd
	in   io.WriteCloser
	died chan string // receives where it killed itself; "" if it was killed
}

// start runs the test's binary as a child. It is killed at the end of the test, if not before.
func start(t testing.TB, o order, log string) *process {
	t.Helper()
	text, err := json.Marshal(o)
	testkit.Must(t, err)
	p := &process{cmd: exec.Command(os.Args[0]), died: make(chan string, 1)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	stderr, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	testkit.Must(t, err)
	defer stderr.Close()
	p.cmd.Stderr = stderr
	p.in, err = p.cmd.StdinPipe()
	testkit.Must(t, err)
	out, err := p.cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, p.cmd.Start())
	greeted := make(chan bool, 1)
	go p.listen(out, greeted)
	t.Cleanup(func() { p.kill(); p.in.Close() })
	testkit.Receive(t, "a child comes up", greeted)
	return p
}

// listen reads what the child prints, and waits for its end.
func (p *process) listen(out io.Reader, greeted chan<- bool) {
	last := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, diedAt) {
			last = strings.TrimPrefix(line, diedAt+" ")
		} else if json.Unmarshal([]byte(line), &p.hello) == nil {
			greeted <- true
		}
	}
	err := p.cmd.Wait()
	if last == "" && (err == nil || !strings.Contains(err.Error(), "killed")) {
		last = fmt.Sprintf("ended by itself: %v", err)
	}
	p.died <- last
	greeted <- false // it died before it served
}

// await waits until the process has killed itself, and returns the boundary.
func (p *process) await(t testing.TB) string {
	t.Helper()
	at := testkit.Receive(t, "the service's end", p.died)
	p.died <- at
	return at
}

// kill kills the process, as a power cut would, and waits for its end.
func (p *process) kill() string {
	_ = p.cmd.Process.Kill() // it may be dead
	at := <-p.died
	p.died <- at
	return at
}

// doom orders the process to kill itself at a boundary.
func (p *process) doom(d death) {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(p.in, string(text)) // in vain if it has died
}

// copyTree copies a directory that no process writes to.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	testkit.Must(t, os.CopyFS(to, os.DirFS(from)))
	// Private directories stay private: the service checks it.
	testkit.Must(t, os.Chmod(to, 0o700))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func names(t testing.TB, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, filepath.Join(dir, e.Name()))
	}
	return list
}
