package frontier

import "testing"

// Every key that was added passes the filter, and few others do.
func TestFilter(t *testing.T) {
	for _, n := range []int{1, 100, 50_000} {
		f := newFilter(int64(n))
		for i := range n {
			f.add(key(i))
		}
		passed := 0
		for i := range n {
			if !f.has(key(i)) {
				t.Fatalf("%d keys: one that was added does not pass", n)
			}
			if f.has(key(n + i)) {
				passed++
			}
		}
		if passed > n/30 {
			t.Errorf("%d of %d others pass", passed, n)
		}
	}
}
