// Package cache keeps computed values. Cache is an LRU cache with a limit in bytes. It wraps
// golang-lru, which limits the number of entries.
//
// Group lets concurrent callers share one computation.
package cache

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
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

// Memo is a Cache of values that are costly to compute. See GetOrCompute.
type Memo struct {
	*Cache[string]
	flights Group[any]
}

// NewMemo returns a memo for values of at most limit bytes together.
func NewMemo(limit int64) *Memo { return &Memo{Cache: New[string](limit)} }

// Add is Cache.Add, and also counts the bytes of the key: a key contains a client's query, which
// may be longer than the value.
func (m *Memo) Add(key string, value any, cost int64) { m.Cache.Add(key, value, cost+int64(len(key))) }

// GetOrCompute returns the value of a key. If the value is not cached, compute returns it with its
// cost in bytes. Concurrent callers with the same key share one computation, which runs on after
// the caller that began it has left: see Group.
func GetOrCompute[T any](ctx context.Context, m *Memo, key string, compute func(context.Context) (T, int64, error)) (T, error) {
	if v, ok := m.Get(key); ok {
		return v.(T), nil
	}
	v, err := m.flights.Do(ctx, key, func(ctx context.Context) (any, error) {
		v, cost, err := compute(ctx)
		if err == nil {
			m.Add(key, v, cost)
		}
		return v, err
	})
	t, _ := v.(T)
	return t, err
}

// ErrLeft says that a computation has not begun because its caller left. Do then begins the
// computation anew if another caller is still there.
var ErrLeft = errors.New("who asked for it has gone")

// Group shares computations among callers that give the same key. The zero Group is ready to use.
type Group[T any] struct{ calls singleflight.Group }

// Do returns the result of compute. If another caller's compute with the same key is running, Do
// waits for that result. compute runs to its end even if its caller has left, because other callers
// may wait for the result: its context is never cancelled. compute may return ErrLeft before it
// begins its work. Do itself returns when ctx ends.
func (g *Group[T]) Do(ctx context.Context, key string, compute func(context.Context) (T, error)) (T, error) {
	for {
		result := g.calls.DoChan(key, func() (any, error) { return compute(context.WithoutCancel(ctx)) })
		select {
		case r := <-result:
			if errors.Is(r.Err, ErrLeft) && ctx.Err() == nil {
				continue
			}
			v, _ := r.Val.(T)
			return v, r.Err
		case <-ctx.Done():
			var zero T
			return zero, context.Cause(ctx)
		}
	}
}
