package cache

import (
	"context"
	"errors"
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
