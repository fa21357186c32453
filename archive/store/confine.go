package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrConfined says that the process may not write or delete under the key.
var ErrConfined = errors.New("this process may not change that object")

// Confined is a Store that reads everything, but puts and deletes only under some prefixes; without
// prefixes it is read-only. With it, a bug in a process cannot change other processes' objects.
type Confined struct {
	Store
	to []string
}

// NewConfined wraps a store; each prefix ends with a slash.
func NewConfined(s Store, prefixes ...string) *Confined { return &Confined{s, prefixes} }

// Unwrap implements Wrapper.
func (s *Confined) Unwrap() Store { return s.Store }

func (s *Confined) allow(op, key string) error {
	for _, p := range s.to {
		if strings.HasPrefix(key, p) {
			return nil
		}
	}
	return fmt.Errorf("%s %s: %w", op, key, ErrConfined)
}

// Put implements Store.
func (s *Confined) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := s.allow("put", key); err != nil {
		return err
	}
	return s.Store.Put(ctx, key, r, size)
}

// Delete implements Store.
func (s *Confined) Delete(ctx context.Context, key string) error {
	if err := s.allow("delete", key); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}
