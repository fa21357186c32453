package serve

import (
	"context"
	"fmt"
	"iter"

	"sheaf/serve/account"
)

// FilesOfMany lists a host as if each of n editions had brought what its first did.
func (l *Library) FilesOfMany(ctx context.Context, a *account.Account, place string, n int) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		v, err := l.visit(ctx, a)
		if err != nil {
			yield(Node{}, err)
			return
		}
		defer v.snap.Release()
		h, err := v.host(ctx, place)
		if err != nil || h == nil {
			yield(Node{}, fmt.Errorf("host %s: %v, %w", place, h, err))
			return
		}
		first := h.lines[0]
		h.lines = nil
		for i := range n {
			line := first
			line.Edition, line.Seq = fmt.Sprintf("20261121-%d", i+2), first.Seq+int64(i)
			h.lines = append(h.lines, line)
		}
		h.files(ctx)(yield)
	}
}
