package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
)

// A document too large to hold is written anew for each reader; every range of it must fit the whole.
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
	m, err := measure(t.Context(), write)
	if err != nil || m.size != int64(whole.Len()) || m.size <= keep || m.body != nil {
		t.Fatalf("size %d of %d, held %v, %v", m.size, whole.Len(), m.body != nil, err)
	}
	d := document{m, write}
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

// What was computed is kept, and errors are not.
func TestRecall(t *testing.T) {
	c := newCache(100)
	broken := errors.New("not now")
	if _, err := recall(t.Context(), c, "a", func(context.Context) (int, int64, error) { return 0, 30, broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	computed := 0
	for range 2 {
		v, err := recall(t.Context(), c, "a", func(context.Context) (int, int64, error) { computed++; return 7, 30, nil })
		if v != 7 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
	}
	if computed != 1 {
		t.Errorf("computed %d times", computed)
	}
}
