package upload

import "io"

// movingReader tells how far a batch has been read, which is how far it is sent but for what the
// system has in its buffers.
type movingReader struct {
	io.Reader
	at   int64
	tell func(at int64, first bool)
}

// moving reads a batch from a place on, and tells tell, which may be nil.
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
