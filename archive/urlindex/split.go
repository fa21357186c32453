package urlindex

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Split gives the places that divide a range into stretches of about so many blocks each, in
// their order. Only lists of blocks are read. After and Reverse are not looked at.
func (v *View) Split(ctx context.Context, in Range, blocks int64) ([]Position, error) {
	var heads []string
	for _, r := range v.runs {
		n, err := r.find(ctx, in.From)
		if err != nil {
			return nil, fmt.Errorf("URL index: %w", err)
		}
		for n++; n < r.Blocks; n++ { // what the first block has of the range is before every cut
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
