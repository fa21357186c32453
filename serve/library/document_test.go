package library

import (
	"testing"
	"time"
)

// Every range of a short text must fit the whole.
func TestShortText(t *testing.T) {
	e := Text("LATEST", "text/plain", time.Time{}, []byte("20261121\n"))
	for _, c := range [][2]int64{{0, 9}, {0, 0}, {9, 0}, {8, 1}, {2, 5}} {
		if _, got := readRange(t, e, c[0], c[1]); got != "20261121\n"[c[0]:c[0]+c[1]] {
			t.Errorf("range %v: %q", c, got)
		}
	}
}
