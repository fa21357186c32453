package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
)

// ErrTaken says that another has appended an entry of the same number.
var ErrTaken = errors.New("number was taken by another")

// Log is a log of objects. They count from 1 without gaps, because N+1 is only ever put by
// one who has read N; so whether an entry exists also says whether all before it do.
type Log struct {
	Store Store
	Key   func(n int64) string
}

// Last gives the number of the last entry, knowing that n exists (0: nothing known), by probing.
func (l Log) Last(ctx context.Context, n int64) (int64, error) {
	var failed error
	exists := func(n int64) bool {
		_, err := l.Store.Stat(ctx, l.Key(n))
		if err != nil && !errors.Is(err, ErrNotExist) {
			failed = errors.Join(failed, err)
		}
		return err == nil
	}
	step := int64(1)
	for exists(n+step) && failed == nil {
		n += step
		step *= 2
	}
	more := sort.Search(int(step-1), func(i int) bool { return failed != nil || !exists(n+int64(i)+1) })
	return n + int64(more), failed
}

// Append puts entry n. It fails with ErrTaken where another was first. A put that failed may
// have happened, and one that found the number taken may have found its own: so either way what
// is there decides. Where that is nothing, the put's error is returned and the
// outcome stays open; who repeats the whole will find it.
func (l Log) Append(ctx context.Context, n int64, data []byte) error {
	put := func() error { return l.Store.Put(ctx, l.Key(n), bytes.NewReader(data), int64(len(data))) }
	failed := put()
	if failed == nil {
		return nil
	}
	there, err := ReadAll(ctx, l.Store, l.Key(n), 0, -1)
	switch {
	case err != nil:
		return failed
	case !bytes.Equal(there, data):
		return ErrTaken
	case errors.Is(failed, ErrExists):
		return nil
	}
	// It can be seen, but what failed may have been the sync after it. That the key
	// is taken is only said of an object that is durable.
	if err := put(); err != nil && !errors.Is(err, ErrExists) {
		return failed
	}
	return nil
}

// ReadAll reads n bytes of an object, from off on, into memory; n < 0 is all to its end.
func ReadAll(ctx context.Context, st Store, key string, off, n int64) (data []byte, err error) {
	r, err := st.Open(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if n < 0 {
		data, err = io.ReadAll(r)
	} else {
		data = make([]byte, n)
		_, err = io.ReadFull(r, data)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return data, nil
}
