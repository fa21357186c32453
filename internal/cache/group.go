package cache

import (
	"context"
	"errors"

	"golang.org/x/sync/singleflight"
)

// ErrLeft is for a computation that had to wait before it could begin, and whose caller went
// meanwhile. Do has it begun anew for a caller that is still there.
var ErrLeft = errors.New("who asked for it has gone")

// Group shares computations among callers that give the same key. The zero Group is ready to use.
type Group[T any] struct{ calls singleflight.Group }

// Do returns the result of compute. A caller that comes while another one's compute with the same
// key is running waits for that result. compute runs to its end even when its caller has gone,
// because others may wait for it, so its context is never cancelled. It may fail with ErrLeft
// before it begins. Do itself returns when ctx ends.
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
