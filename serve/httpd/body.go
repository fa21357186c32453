package httpd

import (
	"io"
	"net/http"
	"time"
)

// slowBody gives each piece of a request's body a deadline, as staller does for an
// answer's: a sender that begins one and stops holds a connection and what was read so far.
// It is used by one goroutine at a time.
type slowBody struct {
	io.ReadCloser
	deadline *http.ResponseController
	patience time.Duration
	left     int // bytes of the piece that have not come
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.left = stallChunk
		_ = b.deadline.SetReadDeadline(time.Now().Add(b.patience)) // fails where the connection has none, as in a test's recorder
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	if err != nil {
		// net/http reads on, to learn whether the client goes away while it is answered.
		_ = b.deadline.SetReadDeadline(time.Time{})
	}
	return n, err
}
