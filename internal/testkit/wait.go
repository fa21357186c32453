package testkit

import (
	"iter"
	"testing"
	"time"
)

// Patience is how long a test waits for something that takes moments on an idle machine. It is
// long, because the machine may be busy; a hang still ends.
const Patience = 2 * time.Minute

// Slower is how many times slower than an idle machine a test's machine may be. A limit of the
// product within which a test's own work must be done is what that takes on an idle machine, times
// Slower.
const Slower = 10

// longestPause is how long a test waits before it looks again at what can be seen quickly.
const longestPause = 20 * time.Millisecond

// Must fails the test at once if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually repeats try until it returns nil, and fails the test with the last error if it does
// not within Patience. What says what is waited for.
func Eventually(t testing.TB, what string, try func() error) {
	t.Helper()
	pause := time.Millisecond
	for end := time.Now().Add(Patience); ; time.Sleep(pause) {
		began := time.Now()
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v: %v", what, Patience, err)
		}
		pause = min(2*pause, max(longestPause, 2*time.Since(began))) // another program may need the processor
	}
}

// Until is Eventually for a condition that has no error to tell.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Eventually(t, what, func() error {
		if holds() {
			return nil
		}
		return errNotYet
	})
}

// Receive returns the next value of a channel, and fails the test if there is none within Patience.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		t.Fatalf("%s: not within %v", what, Patience)
		panic("not reached")
	}
}

// For repeats a loop until a time is over: for tests that search for faults, in how many rounds fit
// into it.
func For(d time.Duration) iter.Seq[int] {
	return func(yield func(int) bool) {
		end := time.Now().Add(d)
		for n := 0; time.Now().Before(end) && yield(n); n++ {
		}
	}
}

// Throughout repeats try for a time, and fails the test if it returns an error once: for what must
// not happen. A slow machine tries less often, and does not fail for that.
func Throughout(t testing.TB, what string, d time.Duration, try func() error) {
	t.Helper()
	for end := time.Now().Add(d); ; time.Sleep(longestPause) {
		if err := try(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if time.Now().After(end) {
			return
		}
	}
}
