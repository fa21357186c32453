package stream

import (
	"context"
	"io"
	"time"

	"sheaf/internal/loop"
)

// UntilDone returns a reader of r that fails with the context's error once the context has ended. A
// Read that has begun is not interrupted.
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

// Sleep waits for d. It fails with the cause of the context's end if that comes before.
func Sleep(ctx context.Context, d time.Duration) error {
	if d > 0 && !loop.Pause(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}
