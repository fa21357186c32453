package stream

import (
	"context"
	"io"
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
