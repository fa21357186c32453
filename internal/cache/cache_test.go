package cache

import "testing"

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
