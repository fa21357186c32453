package cache

import (
	"context"

	"golang.org/x/sync/singleflight"
)

// Group shares computations among callers that give the same key. The zero Group is ready to use.
type Group[T any] struct{ calls singleflight.Group }

// Do returns the result of compute. A caller that comes while another one's compute with the same
// key is running waits for that result. compute runs to its end even when its caller has gone,
// because others may wait for it, so its context is never cancelled. Do itself returns when ctx
// ends.
func (g *Group[T]) Do(ctx context.Context, key string, compute func(context.Context) (T, error)) (T, error) {
	result := g.calls.DoChan(key, func() (any, error) { return compute(context.WithoutCancel(ctx)) })
	select {
	case r := <-result:
		v, _ := r.Val.(T)
		return v, r.Err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}
