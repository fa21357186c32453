package cache

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

func TestCacheKeepsToItsBound(t *testing.T) {
	c := New[int](100)
	for i := range 50 {
		c.Add(i, i, 30)
		c.Get(0) // keeps 0 recently used
	}
	for i := range 50 {
		v, ok := c.Get(i)
		if want := i == 0 || i > 47; ok != want || ok && v != i {
			t.Errorf("%d: %v, %v", i, v, ok)
		}
	}
	if c.bytes != 90 {
		t.Errorf("%d bytes are cached, want 90", c.bytes)
	}
	if c.Add(99, 99, 101); c.bytes != 90 {
		t.Errorf("%d bytes are cached after adding a value above the limit, want 90", c.bytes)
	}
}

// What was computed is kept, and errors are not.
func TestGetOrCompute(t *testing.T) {
	m := NewMemo(100)
	broken := errors.New("not now")
	if _, err := GetOrCompute(t.Context(), m, "a", func(context.Context) (int, int64, error) { return 0, 30, broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	computed := 0
	for range 2 {
		v, err := GetOrCompute(t.Context(), m, "a", func(context.Context) (int, int64, error) { computed++; return 7, 30, nil })
		if v != 7 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
	}
	if computed != 1 {
		t.Errorf("computed %d times", computed)
	}
}

// Long keys of small values do not fill more memory than the limit.
func TestKeysCount(t *testing.T) {
	m := NewMemo(1000)
	for n := range 50 {
		key := strings.Repeat("x", 90) + string(rune('a'+n))
		if _, err := GetOrCompute(t.Context(), m, key, func(context.Context) (int, int64, error) { return n, 1, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.lru.Len(); n != 10 {
		t.Errorf("a memo of 1000 bytes keeps %d values with keys of 91 bytes, want 10", n)
	}
}

func TestCallersShareOneComputation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int]
		calls, finish := 0, make(chan struct{})
		compute := func(ctx context.Context) (int, error) {
			calls++
			<-finish
			return 7, ctx.Err()
		}
		gone, leave := context.WithCancel(t.Context())
		go func() {
			if _, err := g.Do(gone, "key", compute); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left got %v", err)
			}
		}()
		synctest.Wait()
		for range 3 {
			go func() {
				if n, err := g.Do(t.Context(), "key", compute); n != 7 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}()
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(finish)
		synctest.Wait()
		if calls != 1 {
			t.Errorf("computed %d times", calls)
		}
	})
}

// A computation that did not begin, since its caller went while it waited for its turn, is begun by
// another caller.
func TestOtherCallersComputeWhenOneLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int]
		gone, leave := context.WithCancel(t.Context())
		go func() {
			_, err := g.Do(gone, "key", func(context.Context) (int, error) { <-gone.Done(); return 0, ErrLeft })
			if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrLeft) {
				t.Errorf("the caller that left got %v", err)
			}
		}()
		synctest.Wait()
		for range 3 {
			go func() {
				if n, err := g.Do(t.Context(), "key", func(context.Context) (int, error) { return 7, nil }); n != 7 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}()
		}
		synctest.Wait()
		leave()
		synctest.Wait()
	})
}
