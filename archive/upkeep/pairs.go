package upkeep

import (
	"context"
	"iter"

	"sheaf/archive/store"
)

// pair holds the objects under one key in two stores. A pointer is nil if its store has no such
// object.
type pair struct{ a, b *store.Info }

// pairs walks the objects of two stores in the order of their keys.
func pairs(ctx context.Context, a, b store.Store) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		next, stop := iter.Pull2(b.List(ctx, "", ""))
		defer stop()
		other, err, more := next()
		for info, errA := range a.List(ctx, "", "") {
			if errA != nil {
				yield(pair{}, errA)
				return
			}
			for more && err == nil && other.Key < info.Key {
				only := other
				if !yield(pair{b: &only}, nil) {
					return
				}
				other, err, more = next()
			}
			if err != nil {
				yield(pair{}, err)
				return
			}
			both := pair{a: &info}
			if more && other.Key == info.Key {
				same := other
				both.b = &same
				other, err, more = next()
			}
			if !yield(both, nil) {
				return
			}
		}
		for more && err == nil {
			only := other
			if !yield(pair{b: &only}, nil) {
				return
			}
			other, err, more = next()
		}
		if err != nil {
			yield(pair{}, err)
		}
	}
}
