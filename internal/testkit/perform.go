package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// bench is the testing.TB of a command's work. It has the methods that tests' helpers call; any
// other method panics.
type bench struct {
	testing.TB // nil; only a type of package testing can be a testing.TB by itself

	ctx  context.Context
	name string
	dir  string

	mu      sync.Mutex // guards what follows
	errs    []error
	missing string // why it was skipped
	ends    []func()
}

// Perform runs f with a testing.TB, so that a command that is no test can use the tests' helpers.
// It cleans up when f returns, fails or is skipped. missing says what f lacked if it was skipped.
func Perform(ctx context.Context, name string, f func(testing.TB)) (missing string, err error) {
	dir, err := os.MkdirTemp("", "sheaf-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL may run as another user
		return "", err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b := &bench{ctx: ctx, name: name, dir: dir}
	ended := make(chan struct{})
	go func() { // which Fatal ends
		defer close(ended)
		defer b.end()
		f(b)
	}()
	<-ended
	return b.missing, errors.Join(append(b.errs, os.RemoveAll(dir))...)
}

// end calls the functions that Cleanup was given, the last one first.
func (b *bench) end() {
	for len(b.ends) > 0 {
		last := b.ends[len(b.ends)-1]
		b.ends = b.ends[:len(b.ends)-1]
		last()
	}
}

func (b *bench) Helper()                  {}
func (b *bench) Name() string             { return b.name }
func (b *bench) Context() context.Context { return b.ctx }

func (b *bench) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends = append(b.ends, f)
}

func (b *bench) TempDir() string {
	dir, err := os.MkdirTemp(b.dir, "")
	if err != nil {
		b.Fatal(err)
	}
	return dir
}

func (b *bench) Failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.errs) > 0
}

func (b *bench) fail(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, errors.New(strings.TrimSpace(text)))
}

func (b *bench) Log(args ...any)                   { b.fail(fmt.Sprintln(args...)) } // a log's end, after a failure
func (b *bench) Logf(format string, args ...any)   { b.fail(fmt.Sprintf(format, args...)) }
func (b *bench) Error(args ...any)                 { b.fail(fmt.Sprintln(args...)) }
func (b *bench) Errorf(format string, args ...any) { b.fail(fmt.Sprintf(format, args...)) }

func (b *bench) Fatal(args ...any) {
	b.Error(args...)
	runtime.Goexit()
}

func (b *bench) Fatalf(format string, args ...any) {
	b.Errorf(format, args...)
	runtime.Goexit()
}

func (b *bench) Skipf(format string, args ...any) {
	b.missing = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
