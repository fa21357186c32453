package serve

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// sorted is a segment's index with the order of its cells by URL key and time.
type sorted struct {
	*archive.Index
	order  []int32
	before []int64 // of each cell: the bytes of the records before it in the WARC view
}

// sortCost is what a cell takes in a sorted index beside the index itself.
const sortCost = 12

// sorted reads a segment's index and puts its cells in order.
func (l *Library) sorted(ctx context.Context, line catalog.SegmentEntry) (sorted, error) {
	return recall(ctx, l.cache, "sorted "+line.SHA256, func(ctx context.Context) (sorted, int64, error) {
		index, err := l.index(ctx, line)
		if err != nil {
			return sorted{}, 0, err
		}
		s := sorted{index, make([]int32, len(index.Cells)), make([]int64, len(index.Cells))}
		records := int64(0)
		for i := range s.order {
			s.order[i], s.before[i] = int32(i), records
			records += index.Cells[i].WARCLength()
		}
		slices.SortFunc(s.order, func(a, b int32) int {
			return cmp.Or(byKeyAndTime(&index.Cells[a], &index.Cells[b]), cmp.Compare(a, b))
		})
		return s, int64(len(s.order))*sortCost + 256, nil
	})
}

func byKeyAndTime(a, b *archive.Cell) int {
	return cmp.Or(strings.Compare(a.URLKey, b.URLKey), a.Time.Compare(b.Time))
}
