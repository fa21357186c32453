package store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"testing"

	"sheaf/archive/store"
	"sheaf/archive/store/storecheck"
	"sheaf/archive/store/storetest"
	"sheaf/internal/testkit"
)

func openDir(t *testing.T) store.Store {
	s, err := store.OpenFS(t.TempDir())
	testkit.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func wantEmpty(t *testing.T, s store.Store) {
	t.Helper()
	for info, err := range s.List(t.Context(), "", "") {
		t.Errorf("the check left %s (%v)", info.Key, err)
	}
}

func missing(found []storecheck.Promise) (n []string) {
	for _, p := range found {
		if !p.OK {
			n = append(n, p.Promise+": "+p.Seen)
		}
	}
	return n
}

func TestDirectory(t *testing.T) {
	s := openDir(t)
	found, err := storecheck.Run(t.Context(), s, nil)
	if got := missing(found); err != nil || len(found) != 9 || len(got) > 0 {
		t.Errorf("%d promises, %v, %q", len(found), err, got)
	}
	wantEmpty(t, s)
}

func TestVersity(t *testing.T) {
	testkit.Slow(t)
	o := storetest.StartVersity(t).Options(t)
	o.ReadOnly = true
	s, err := store.OpenS3(t.Context(), o)
	testkit.Must(t, err)
	o.MaxPut = storecheck.PartSize
	parts, err := store.OpenS3(t.Context(), o)
	testkit.Must(t, err)
	found, err := storecheck.Run(t.Context(), s, parts)
	if got := missing(found); err != nil || len(found) != 10 || len(got) > 0 {
		t.Errorf("%d promises, %v, %q", len(found), err, got)
	}
	wantEmpty(t, s)
}

// overwrites is a store that ignores the condition of a put.
type overwrites struct{ store.Store }

func (s overwrites) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	for {
		if err := s.Store.Delete(ctx, key); err != nil {
			return err
		}
		if err := s.Store.Put(ctx, key, bytes.NewReader(data), size); !errors.Is(err, store.ErrExists) {
			return err
		}
	}
}

// onePage is a store whose listing ends after one page.
type onePage struct{ store.Store }

func (s onePage) List(ctx context.Context, prefix, after string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		n := 0
		for info, err := range s.Store.List(ctx, prefix, after) {
			if n++; n > 1000 || !yield(info, err) {
				return
			}
		}
	}
}

// whole is a store that ignores ranges.
type whole struct{ store.Store }

func (s whole) Open(ctx context.Context, key string, _, _ int64) (io.ReadCloser, error) {
	return s.Store.Open(ctx, key, 0, -1)
}

func TestBrokenPromise(t *testing.T) {
	testkit.Slow(t)
	for promise, broken := range map[string]func(store.Store) store.Store{
		"an object in parts is refused at its completion if the name exists": func(s store.Store) store.Store { return overwrites{s} },
		"a put of a name that exists is refused":                             func(s store.Store) store.Store { return overwrites{s} },
		"a listing of several pages is complete and in byte order":           func(s store.Store) store.Store { return onePage{s} },
		"ranges are read exactly, and refused beyond the end":                func(s store.Store) store.Store { return whole{s} },
	} {
		t.Run(promise, func(t *testing.T) {
			s := openDir(t)
			found, err := storecheck.Run(t.Context(), broken(s), broken(s))
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(found, func(p storecheck.Promise) bool { return p.Promise == promise })
			if i < 0 || found[i].OK || found[i].Seen == "" || found[i].Breaks == "" {
				t.Errorf("the broken promise was not found: %+v", found)
			}
			wantEmpty(t, s)
		})
	}
}

// An interrupted check deletes what it made.
func TestInterrupted(t *testing.T) {
	s := openDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	puts := &storetest.Fault{Store: s, Decide: func(op, key string) storetest.Outcome {
		if op == "put" && key == "l/0700" {
			cancel()
		}
		return storetest.Works
	}}
	if _, err := storecheck.Run(ctx, puts, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	wantEmpty(t, s)
}
