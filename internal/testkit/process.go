package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

var errNotYet = errors.New("it does not hold yet")

// Process is a program that runs beside a test. Its output goes to the file Log.
type Process struct {
	*exec.Cmd
	Log string

	ended chan struct{} // closed when the process has ended and was waited for
	err   error         // result of Wait; read after ended is closed
}

// Start runs cmd and kills it when the test ends. cmd also dies with the test's process. If cmd has
// no Stdout or Stderr, its output is appended to the file log, or to a new file if log is empty. If
// the test fails, the log's end is printed.
func Start(t testing.TB, log string, cmd *exec.Cmd) *Process {
	t.Helper()
	if log == "" {
		log = filepath.Join(t.TempDir(), "log")
	}
	p, err := Launch(log, cmd)
	Must(t, err)
	t.Cleanup(func() {
		p.Kill()
		if _, again := shown.LoadOrStore(logOf{t, log}, true); t.Failed() && !again {
			t.Log(Tail(log))
		}
	})
	return p
}

// Launch is Start for a program that several tests share. The caller ends it.
func Launch(log string, cmd *exec.Cmd) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = out
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{Cmd: cmd, Log: log, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// logOf is a log to which a test's processes write, one after the other if a program is started
// again.
type logOf struct {
	t    testing.TB
	name string
}

// shown has the logs whose ends were printed.
var shown sync.Map

// Kill ends the process by SIGKILL, like a power cut, and waits for its end.
func (p *Process) Kill() {
	_ = p.Process.Kill() // it may have ended
	<-p.ended
}

// Stop sends the process SIGTERM, waits for its end, and returns the result of exec.Cmd.Wait.
func (p *Process) Stop() error {
	_ = p.Process.Signal(syscall.SIGTERM) // it may have ended
	return p.Ended()
}

// Ended waits for the process's end and returns the result of exec.Cmd.Wait.
func (p *Process) Ended() error {
	<-p.ended
	return p.err
}

// HasEnded reports, without waiting, whether the process has ended.
func (p *Process) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Ready waits until try returns nil, and fails the test at once if the process ends before that.
func (p *Process) Ready(t testing.TB, try func() error) {
	t.Helper()
	Eventually(t, p.Path+" is ready", func() error {
		if p.HasEnded() {
			t.Fatalf("%s has ended: %v\n%s", p.Path, p.err, Tail(p.Log))
		}
		return try()
	})
}

// Tail returns the end of a log, for messages of failed tests.
func Tail(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("the end of %s:\n%s", log, text[max(0, len(text)-4000):])
}
