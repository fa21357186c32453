package upkeep

import (
	"cmp"
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
		nextA, stopA := iter.Pull2(a.List(ctx, "", ""))
		defer stopA()
		nextB, stopB := iter.Pull2(b.List(ctx, "", ""))
		defer stopB()
		inA, errA, moreA := nextA()
		inB, errB, moreB := nextB()
		for moreA || moreB {
			if err := cmp.Or(errA, errB); err != nil {
				yield(pair{}, err)
				return
			}
			var p pair
			if moreA && (!moreB || inA.Key <= inB.Key) {
				p.a = new(inA)
			}
			if moreB && (!moreA || inB.Key <= inA.Key) {
				p.b = new(inB)
			}
			if !yield(p, nil) {
				return
			}
			if p.a != nil {
				inA, errA, moreA = nextA()
			}
			if p.b != nil {
				inB, errB, moreB = nextB()
			}
		}
	}
}
