package cache

import (
	"context"
	"errors"
	"strings"
	"testing"
)

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
