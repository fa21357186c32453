// Package bytecache keeps what is costly to make again, the least recently used first to go,
// within a bound on bytes. It is golang-lru's list, whose own bound is on entries.
package bytecache

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache holds values under keys that name what never changes, so nothing is ever invalidated.
// It may be used by many at once.
type Cache[K comparable] struct {
	limit int64

	mu    sync.Mutex // guards what follows
	lru   *simplelru.LRU[K, cached]
	bytes int64
}

type cached struct {
	value any
	cost  int64
}

// New makes a cache of values that cost limit bytes together.
func New[K comparable](limit int64) *Cache[K] {
	c := &Cache[K]{limit: limit}
	// The only error is a size that is not positive. Bytes bound it, not entries.
	c.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ K, e cached) { c.bytes -= e.cost })
	return c
}

// Get gives the value under a key, and whether there is one.
func (c *Cache[K]) Get(key K) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lru.Get(key)
	return e.value, ok
}

// Add keeps a value that costs about so many bytes, unless there is one or it costs more than all may.
func (c *Cache[K]) Add(key K, value any, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cost > c.limit || c.lru.Contains(key) {
		return
	}
	c.lru.Add(key, cached{value, cost})
	for c.bytes += cost; c.bytes > c.limit; {
		c.lru.RemoveOldest()
	}
}
