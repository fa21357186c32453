package library

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
)

// A document too large to hold is written anew for each reader; every range of it must fit the
// whole.
func TestLargeDocument(t *testing.T) {
	write := func(ctx context.Context, w io.Writer) error {
		for i := range 200_000 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "line %d\n", i); err != nil {
				return err
			}
		}
		return nil
	}
	var whole bytes.Buffer
	if err := write(t.Context(), &whole); err != nil {
		t.Fatal(err)
	}
	m, err := (&Document{Write: write}).measure(t.Context(), "")
	if err != nil || m.size != int64(whole.Len()) || m.size <= maxHeld || m.body != nil {
		t.Fatalf("size %d of %d, held %v, %v", m.size, whole.Len(), m.body != nil, err)
	}
	d := documentRanges{m, write}
	for _, c := range [][2]int64{{0, m.size}, {0, 0}, {m.size, 0}, {m.size - 1, 1}, {70_000, 5}, {1, m.size - 1}} {
		r, err := d.OpenRange(t.Context(), c[0], c[1])
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, whole.Bytes()[c[0]:c[0]+c[1]]) {
			t.Errorf("range %v: %d bytes, %v", c, len(got), err)
		}
		r.Close()
	}
	r, err := d.OpenRange(t.Context(), 0, m.size) // given up at once: the writer must end
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}
