package cache

import (
	"context"
	"errors"

	"golang.org/x/sync/singleflight"
)

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
