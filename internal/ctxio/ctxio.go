// Package ctxio has a reader that ends with a context.
package ctxio

import (
	"context"
	"io"
)

// Reader returns a reader of r that fails with the context's error once the context has ended. A
// Read that has begun is not interrupted.
func Reader(ctx context.Context, r io.Reader) io.Reader { return &reader{ctx, r} }

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
