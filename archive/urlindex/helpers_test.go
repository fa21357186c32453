package urlindex_test

import (
	"context"
	"iter"
	"os"
	"strconv"
	"testing"

	"sheaf/archive/urlindex"
	"sheaf/internal/testkit"
)

// rounds returns SHEAF_TEST_ROUNDS, or a small default.
func rounds() int {
	if testing.Short() {
		return 1
	}
	return fromEnv("SHEAF_TEST_ROUNDS", testkit.Size(1, 3))
}

// fromEnv returns a positive number from the environment, or the default.
func fromEnv(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// rowsOf yields the rows of a range of a view, up to the first error.
func rowsOf(ctx context.Context, v *urlindex.View, in urlindex.Range) iter.Seq2[*urlindex.Row, error] {
	return func(yield func(*urlindex.Row, error) bool) {
		rows, err := v.Rows(ctx, in)
		for err == nil {
			var r *urlindex.Row
			if r, err = rows.Next(ctx); err == nil && (r == nil || !yield(r, nil)) {
				return
			}
		}
		yield(nil, err)
	}
}
