package urlindex

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cache keeps parts of runs, least recently used first to go, within a bound on bytes.
// Runs never change, so nothing is ever invalidated. It may be used by many at once.
type cache struct {
	limit int64

	mu    sync.Mutex // guards what follows
	lru   *simplelru.LRU[part, cached]
	bytes int64
}

// part names a page or a block of a run.
type part struct {
	run    string
	page   bool
	number int64
}

type cached struct {
	value any
	cost  int64 // bytes, estimated
}

func newCache(limit int64) *cache {
	c := &cache{limit: limit}
	// The only error is a size that is not positive. Bytes bound it, not entries.
	c.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ part, e cached) { c.bytes -= e.cost })
	return c
}

func (c *cache) get(p part) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lru.Get(p)
	return e.value, ok
}

func (c *cache) add(p part, value any, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cost > c.limit || c.lru.Contains(p) {
		return
	}
	c.lru.Add(p, cached{value, cost})
	for c.bytes += cost; c.bytes > c.limit; {
		c.lru.RemoveOldest()
	}
}
