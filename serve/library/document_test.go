package library

import (
	"context"
	"fmt"
	"io"
	"testing"

	"sheaf/internal/cache"
	"sheaf/internal/testkit"
)

// A document without Spools is written once; every range of it must fit the whole.
func TestDocumentInMemory(t *testing.T) {
	written := 0
	memo := cache.NewMemo(1 << 20)
	for range 2 {
		d := &Document{Name: "LATEST", Write: func(_ context.Context, w io.Writer) error {
			written++
			_, err := fmt.Fprintln(w, "20261121")
			return err
		}}
		e, err := d.Entry(t.Context(), memo)
		testkit.Must(t, err)
		for _, c := range [][2]int64{{0, 9}, {0, 0}, {9, 0}, {8, 1}, {2, 5}} {
			if _, got := readRange(t, e, c[0], c[1]); got != "20261121\n"[c[0]:c[0]+c[1]] {
				t.Errorf("range %v: %q", c, got)
			}
		}
	}
	if written != 1 {
		t.Errorf("it was written %d times", written)
	}
}
