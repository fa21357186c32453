package cache

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache caches values that never change, so there is no invalidation. It may be used concurrently.
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

// New returns a cache for values of at most limit bytes together.
func New[K comparable](limit int64) *Cache[K] {
	c := &Cache[K]{limit: limit}
	// NewLRU fails only if the number of entries is not positive.
	c.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ K, e cached) { c.bytes -= e.cost })
	return c
}

// Get returns the value of a key, and whether the value is cached.
func (c *Cache[K]) Get(key K) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lru.Get(key)
	return e.value, ok
}

// Add caches a value of about cost bytes. It does nothing if the key is cached or cost exceeds the
// limit.
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
