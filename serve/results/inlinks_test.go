package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/serve/library"
)

// TestLookup: a look-up finds exactly the rows with a prefix, also where keys are longer than what
// the table's index keeps of them, and goes on at any row. A forged place makes it read no more.
func TestLookup(t *testing.T) {
	testkit.Slow(t)
	random := testkit.Random(t)
	keys := make([]string, 150_000) // more than one group of rows
	for i := range keys {
		keys[i] = fmt.Sprintf("jp,site%d)/%s%d", random.IntN(50), strings.Repeat("long/", random.IntN(30)), random.IntN(20_000))
	}
	slices.Sort(keys)
	file := library.NewTempFile(0, nil)
	w := newRowWriter[linkHostRow](file)
	for i, key := range keys {
		testkit.Must(t, w.write(linkHostRow{TargetKey: key, Links: int64(i)}))
	}
	testkit.Must(t, w.Close())
	table := &library.Entry{Node: library.Node{Name: "table", Size: file.Size}, Open: func(context.Context) (library.Ranges, error) { return file, nil }}
	keyOf := func(r *linkHostRow) string { return r.TargetKey }
	t.Run("forged", func(t *testing.T) {
		read := &readCounter{Ranges: file}
		counted := &library.Entry{Node: table.Node, Open: func(context.Context) (library.Ranges, error) { return read, nil }}
		rows := 0
		testkit.Must(t, lookup(t.Context(), counted, keys[len(keys)-1], spot{}, keyOf, func(spot, *linkHostRow) error { rows++; return nil }))
		if most := file.Size / 4; rows == 0 || read.bytes > most {
			t.Errorf("from the table's first row, %d rows were found by reading %d bytes; want the last row, and at most %d bytes", rows, read.bytes, most)
		}
	})
	for n := range 90 {
		prefix := keys[random.IntN(len(keys))]
		if n%3 == 0 {
			prefix = prefix[:random.IntN(len(prefix))]
		} else if n%3 == 1 {
			prefix += "~"
		}
		var want, got []int64
		for i, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, int64(i))
			}
		}
		at, enough := spot{row: -1}, random.IntN(len(want)+1)/2
		if len(want) > 1000 {
			enough += len(want) / 5
		}
		for more := true; more; {
			seen := 0
			err := lookup(t.Context(), table, prefix, at, keyOf, func(here spot, r *linkHostRow) error {
				if seen > enough {
					at = here
					return errEnough
				}
				seen++
				got = append(got, r.Links)
				return nil
			})
			if more = errors.Is(err, errEnough); !more {
				testkit.Must(t, err)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%.150q: %d rows, want %d", prefix, len(got), len(want))
		}
	}
}

// readCounter counts the bytes that are asked for.
type readCounter struct {
	library.Ranges
	bytes int64
}

func (r *readCounter) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r.bytes += n
	return r.Ranges.OpenRange(ctx, off, n)
}
