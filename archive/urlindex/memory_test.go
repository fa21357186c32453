package urlindex_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive/store"
	"sheaf/archive/store/storetest"
)

// memory is a store in memory, whose objects a test can damage.
type memory struct {
	now func() time.Time // the store's clock

	mu      sync.Mutex // guards what follows
	objects map[string]object
}

type object struct {
	data     []byte
	modified time.Time
}

func newMemory(now func() time.Time) *memory {
	return &memory{now: now, objects: make(map[string]object)}
}

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return newMemory(time.Now) })
}

func (m *memory) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if m.has(key) {
		return fmt.Errorf("put %s: %w", key, store.ErrExists)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if int64(len(data)) != size {
		return fmt.Errorf("put %s: %w", key, store.ErrSize)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.objects[key]; taken {
		return fmt.Errorf("put %s: %w", key, store.ErrExists)
	}
	m.objects[key] = object{data, m.now()}
	return nil
}

func (m *memory) has(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.objects[key]
	return ok
}

func (m *memory) get(key string) (object, error) {
	if err := store.CheckKey(key); err != nil {
		return object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return o, fmt.Errorf("%s: %w", key, store.ErrNotExist)
	}
	return o, nil
}

func (m *memory) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	o, err := m.get(key)
	if err != nil {
		return nil, err
	}
	size := int64(len(o.data))
	if n < 0 {
		n = size - off
	}
	if off < 0 || n < 0 || off > size || n > size-off {
		return nil, fmt.Errorf("open %s: %w", key, store.ErrRange)
	}
	return io.NopCloser(bytes.NewReader(o.data[off : off+n])), ctx.Err()
}

func (m *memory) Stat(_ context.Context, key string) (store.Info, error) {
	o, err := m.get(key)
	return store.Info{Key: key, Size: int64(len(o.data)), Modified: o.modified}, err
}

func (m *memory) List(ctx context.Context, prefix, after string) iter.Seq2[store.Info, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.objects)
	return func(yield func(store.Info, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if err := ctx.Err(); err != nil {
				yield(store.Info{}, err)
				return
			}
			if strings.HasPrefix(key, prefix) && key > after {
				if !yield(store.Info{Key: key, Size: int64(len(all[key].data)), Modified: all[key].modified}, nil) {
					return
				}
			}
		}
	}
}

func (m *memory) Delete(_ context.Context, key string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

// spoil changes an object's bytes in place.
func (m *memory) spoil(key string, change func(data []byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	o.data = change(bytes.Clone(o.data))
	m.objects[key] = o
}

// keys returns the keys with a prefix, in order.
func (m *memory) keys(prefix string) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if strings.HasPrefix(key, prefix) {
			all = append(all, key)
		}
	}
	return all
}
