package peer

import (
	"context"
	"crypto/rand"
)

type idKey struct{}

// WithRequest returns a context with a request's ID. Lines that are logged with the context have
// the ID (see package commandline).
func WithRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, idKey{}, id)
}

// Request returns the request's ID in a context; empty if there is none.
func Request(ctx context.Context) string {
	id, _ := ctx.Value(idKey{}).(string)
	return id
}

// NewID returns a new random ID of 26 letters and digits.
func NewID() string { return rand.Text() }
