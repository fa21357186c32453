package serve

import (
	"context"

	"golang.org/x/sync/singleflight"

	"sheaf/internal/bytecache"
)

// cache keeps what is costly to compute. Keys name immutable things.
type cache struct {
	*bytecache.Cache[string]
	flight singleflight.Group
}

func newCache(limit int64) *cache { return &cache{Cache: bytecache.New[string](limit)} }

// recall returns the value under key, computing it where it is not cached. Who
// asks for it meanwhile waits for the same computation, which goes on when the
// one who began it gives up.
func recall[T any](ctx context.Context, c *cache, key string, compute func(context.Context) (T, int64, error)) (T, error) {
	if v, ok := c.Get(key); ok {
		return v.(T), nil
	}
	done := c.flight.DoChan(key, func() (any, error) {
		v, cost, err := compute(context.WithoutCancel(ctx))
		if err == nil {
			c.Add(key, v, cost)
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
