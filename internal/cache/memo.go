package cache

import "context"

// Memo is a Cache of values that are costly to compute. See GetOrCompute.
type Memo struct {
	*Cache[string]
	flights Group[any]
}

// NewMemo returns a memo for values of at most limit bytes together.
func NewMemo(limit int64) *Memo { return &Memo{Cache: New[string](limit)} }

// Add is Cache.Add, and also counts the bytes of the key: a key contains a client's query, which
// may be longer than the value.
func (m *Memo) Add(key string, value any, cost int64) { m.Cache.Add(key, value, cost+int64(len(key))) }

// GetOrCompute returns the value of a key. If the value is not cached, compute returns it with its
// cost in bytes. Concurrent callers with the same key share one computation, which runs on after
// the caller that began it has left: see Group.
func GetOrCompute[T any](ctx context.Context, m *Memo, key string, compute func(context.Context) (T, int64, error)) (T, error) {
	if v, ok := m.Get(key); ok {
		return v.(T), nil
	}
	v, err := m.flights.Do(ctx, key, func(ctx context.Context) (any, error) {
		v, cost, err := compute(ctx)
		if err == nil {
			m.Add(key, v, cost)
		}
		return v, err
	})
	t, _ := v.(T)
	return t, err
}
