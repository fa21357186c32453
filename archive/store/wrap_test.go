package store_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
)

var quick = store.RetryOptions{Attempts: 4, First: time.Microsecond, Most: time.Millisecond}

func TestRetry(t *testing.T) {
	testStore(t, func(t *testing.T) store.Store { return store.NewRetry(openFS(t, t.TempDir()), quick) })
}

func TestLimit(t *testing.T) {
	testStore(t, func(t *testing.T) store.Store { return store.NewLimit(openFS(t, t.TempDir()), 1, 1) })
}

func TestMeter(t *testing.T) {
	testStore(t, func(t *testing.T) store.Store { return store.NewMeter(openFS(t, t.TempDir())) })
}

func TestAllWrappers(t *testing.T) {
	testStore(t, func(t *testing.T) store.Store {
		return store.NewRetry(store.NewMeter(store.NewLimit(openFS(t, t.TempDir()), 2, 2)), quick)
	})
}

// turns returns the outcomes in turn, over and over.
func turns(outcomes ...storetest.Outcome) func(op, key string) storetest.Outcome {
	var mu sync.Mutex
	n := 0
	return func(_, _ string) storetest.Outcome {
		mu.Lock()
		defer mu.Unlock()
		n++
		return outcomes[(n-1)%len(outcomes)]
	}
}

// Over a store whose calls fail in every way in turn, Retry passes the suite.
func TestRetryOverFaults(t *testing.T) {
	for name, outcome := range map[string]storetest.Outcome{
		"fails": storetest.Fails, "fails but happened": storetest.FailsButHappened, "truncates": storetest.Truncates,
	} {
		t.Run(name, func(t *testing.T) {
			s := &storetest.Fault{Store: openFS(t, t.TempDir()), Decide: turns(outcome, storetest.Works), DecideRead: turns(storetest.Fails, storetest.Truncates, storetest.Works)}
			r := store.NewRetry(s, quick)
			for _, key := range []string{"a", "b", "c", "d"} {
				data := bytes.Repeat([]byte(key), 10000)
				if err := r.Put(t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
					t.Fatalf("put: %v", err)
				}
				body, err := r.Open(t.Context(), key, 10, -1)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(body)
				if err := errors.Join(err, body.Close()); err != nil || !bytes.Equal(got, data[10:]) {
					t.Errorf("read %d bytes, %v", len(got), err)
				}
				err = r.Put(t.Context(), key, strings.NewReader("other"), 5)
				if !errors.Is(err, store.ErrExists) {
					t.Errorf("another's key: %v", err)
				}
				if err := r.Delete(t.Context(), key); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A body that cannot be read twice is put once; Retry then looks for it.
func TestRetryOnePass(t *testing.T) {
	s := &storetest.Fault{Store: openFS(t, t.TempDir()), Decide: turns(storetest.FailsButHappened, storetest.Fails)}
	r := store.NewRetry(s, quick)
	if err := r.Put(t.Context(), "k", io.MultiReader(strings.NewReader("data")), 4); err != nil {
		t.Errorf("happened: %v", err)
	}
	if err := r.Put(t.Context(), "l", io.MultiReader(strings.NewReader("data")), 4); !errors.Is(err, storetest.ErrInjected) {
		t.Errorf("did not happen: %v", err)
	}
	s.Decide = turns(storetest.Fails)
	if err := r.Put(t.Context(), "m", strings.NewReader("data"), 4); !errors.Is(err, storetest.ErrInjected) {
		t.Errorf("never works: %v", err)
	}
}

func TestMeterCounts(t *testing.T) {
	fault := &storetest.Fault{Store: openFS(t, t.TempDir()), Decide: turns(storetest.Works, storetest.Works, storetest.Fails)}
	m := store.NewMeter(fault)
	for range 3 {
		_ = m.Put(t.Context(), "k", strings.NewReader("data"), 4) // stored; key taken; failed
	}
	r, err := m.Open(t.Context(), "k", 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	for range m.List(t.Context(), "", "") {
	}
	u := m.Usages()
	if u.Put.Calls != 3 || u.Put.Failed != 1 || u.Put.Bytes < 4 || u.Put.Seconds <= 0 {
		t.Errorf("put: %+v", u.Put)
	}
	if u.Open.Calls != 1 || u.Open.Failed != 0 || u.Open.Bytes != 2 || u.List.Calls != 1 || u.Stat.Calls != 0 {
		t.Errorf("%+v", u)
	}
}

// As many operations as allowed run at once, and no more.
func TestLimitHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Fault{Store: openFS(t, t.TempDir())}
		inside, most := make(chan int, 1), 0
		inside <- 0
		s.Decide = func(_, _ string) storetest.Outcome {
			n := <-inside + 1
			most = max(most, n)
			inside <- n
			time.Sleep(time.Millisecond)
			inside <- <-inside - 1
			return storetest.Fails
		}
		l := store.NewLimit(s, 1, 3)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { _ = l.Delete(t.Context(), "k") })
		}
		wg.Wait()
		if most != 3 {
			t.Errorf("%d at once, want 3", most)
		}
	})
}
