package serve

import (
	"context"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
)

// cache keeps what is costly to compute, least recently used first to go, within
// a bound on bytes. Keys name immutable things, so nothing is ever invalidated.
type cache struct {
	limit  int64
	flight singleflight.Group

	mu    sync.Mutex // guards what follows
	lru   *simplelru.LRU[string, cached]
	bytes int64
}

type cached struct {
	value any
	cost  int64 // bytes, estimated
}

func newCache(limit int64) *cache {
	c := &cache{limit: limit}
	// The only error is a size that is not positive. Bytes bound it, not entries.
	c.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ string, e cached) { c.bytes -= e.cost })
	return c
}

func (c *cache) get(key string) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lru.Get(key)
	return e.value, ok
}

func (c *cache) add(key string, value any, cost int64) {
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

// recall returns the value under key, computing it where it is not cached. Who
// asks for it meanwhile waits for the same computation, which goes on when the
// one who began it gives up.
func recall[T any](ctx context.Context, c *cache, key string, compute func(context.Context) (T, int64, error)) (T, error) {
	if v, ok := c.get(key); ok {
		return v.(T), nil
	}
	done := c.flight.DoChan(key, func() (any, error) {
		v, cost, err := compute(context.WithoutCancel(ctx))
		if err == nil {
			c.add(key, v, cost)
		}
		return v, err
	})
	select {
	case r := <-done:
		return r.Val.(T), r.Err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}
