package testkit

import (
	"iter"
	"testing"
	"time"
)

// Patience is how long a test waits for something that takes a moment on an idle machine. It is
// long, because the machine may be busy, but it ends a test that hangs.
const Patience = 2 * time.Minute

// Slower is how many times slower than an idle machine a test's machine may be. If a test must
// finish work within a limit of the product, set the limit to the time on an idle machine times
// Slower.
const Slower = 10

const (
	longestPause = 20 * time.Millisecond  // before Eventually repeats a quick try
	costlyPause  = 250 * time.Millisecond // the same before a try that takes a tenth of that, or longer
)

// Must fails the test at once if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually repeats try until it returns nil. If that takes longer than Patience, the test fails
// with the last error. what names the awaited event, for the message.
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
		took := time.Since(began) // longer pauses leave the processor to other programs
		pause = min(2*pause, max(longestPause, min(10*took, costlyPause), 2*took))
	}
}

// Until is Eventually for a condition without an error.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Eventually(t, what, func() error {
		if holds() {
			return nil
		}
		return errNotYet
	})
}

// Receive returns the next value of a channel, and fails the test if no value comes within
// Patience.
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

// For yields the numbers of rounds, from 0 on, until the time d is over. It is for tests that
// search for faults in as many rounds as fit.
func For(d time.Duration) iter.Seq[int] {
	return func(yield func(int) bool) {
		end := time.Now().Add(d)
		for n := 0; time.Now().Before(end) && yield(n); n++ {
		}
	}
}

// Throughout repeats try for the time d, and fails the test if try returns an error once. It is for
// events that must not happen. On a slow machine try runs less often.
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
