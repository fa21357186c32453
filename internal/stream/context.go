package stream

import (
	"context"
	"io"
	"time"

	"sheaf/internal/loop"
)

// UntilDone returns a reader of r that returns the context's error once the context has ended. It
// does not interrupt a Read that has begun.
func UntilDone(ctx context.Context, r io.Reader) io.Reader { return &reader{ctx, r} }

type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// Sleep waits for d. If ctx ends before, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	if d > 0 && !loop.Pause(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}
