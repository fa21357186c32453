package urlindex

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Split returns positions, in order, that divide a range into sections of about the given number of
// blocks. It reads only lists of blocks, and ignores After and Reverse.
func (v *View) Split(ctx context.Context, in Range, blocks int64) ([]Position, error) {
	var heads []string
	for _, r := range v.runs {
		n, err := r.Find(ctx, in.From)
		if err != nil {
			return nil, fmt.Errorf("URL index: %w", err)
		}
		for n++; n < r.Blocks; n++ { // the first block is not cut: its part of the range is in the first section
			b, err := r.block(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("URL index: %w", err)
			}
			if in.To != "" && b.head >= in.To {
				break
			}
			heads = append(heads, b.head)
		}
	}
	slices.Sort(heads)
	var cuts []Position
	for i := max(blocks, 1); i < int64(len(heads)); i += max(blocks, 1) {
		key, stamp, _ := strings.Cut(heads[i], " ")
		at, err := time.Parse(timeForm, stamp)
		if err != nil {
			return nil, fmt.Errorf("URL index: block of %.100q: %w: %w", heads[i], err, ErrCorrupt)
		}
		if p := (Position{Key: key, Time: at}); len(cuts) == 0 || cuts[len(cuts)-1].Compare(p) < 0 {
			cuts = append(cuts, p)
		}
	}
	return cuts, nil
}
