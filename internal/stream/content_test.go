package stream_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"sheaf/internal/stream"
	"sheaf/internal/testkit"
)

// Bytes that end too early are an error, wherever the read begins: an answer must not end as if it
// were whole.
func TestContentThatEndsTooEarly(t *testing.T) {
	for _, forward := range []bool{false, true} {
		for _, at := range []int64{0, 4, 8} {
			c := &stream.Content{Size: 10, Forward: forward, Open: func(off, _ int64) (io.ReadCloser, error) {
				if forward {
					off = 0
				}
				return io.NopCloser(strings.NewReader("012345"[min(off, 6):])), nil
			}}
			_, err := c.Seek(at, io.SeekStart)
			testkit.Must(t, err)
			if _, err := io.ReadAll(c); !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(c.Err(), io.ErrUnexpectedEOF) {
				t.Errorf("forward %v, from %d: %v, and Err is %v", forward, at, err, c.Err())
			}
			testkit.Must(t, c.Close())
		}
	}
}
