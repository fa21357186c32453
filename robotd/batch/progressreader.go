package batch

import "io"

// movingReader reports how much of a batch has been read. Some of it may still lie in the system's
// buffers.
type movingReader struct {
	io.Reader
	at   int64
	tell func(at int64, first bool)
}

// moving returns a reader that begins at position at and reports its position to tell, which may be
// nil.
func moving(r io.Reader, at int64, tell func(at int64, first bool)) io.Reader {
	if tell == nil {
		return r
	}
	tell(at, true)
	return &movingReader{r, at, tell}
}

func (m *movingReader) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.at += int64(n)
	m.tell(m.at, false)
	return n, err
}
