package archive

import (
	"bytes"
	"io"
	"os"

	"sheaf/archive/deflate"
	"sheaf/internal/files"
)

// spoolMemory is how many bytes a spool keeps in memory.
const spoolMemory = 256 << 10

// spool keeps the bytes that are written to it until it is reset. It keeps up to spoolMemory in
// memory, and further bytes in a temporary file.
type spool struct {
	dir  string
	mem  bytes.Buffer
	file *os.File
	n    int64
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.mem.Len()+len(p) <= spoolMemory {
		s.n += int64(len(p))
		return s.mem.Write(p)
	}
	if s.file == nil {
		f, err := files.Nameless(s.dir)
		if err != nil {
			return 0, err
		}
		s.file = f
	}
	n, err := s.file.Write(p)
	s.n += int64(n)
	return n, err
}

// copyTo writes everything to w.
func (s *spool) copyTo(w io.Writer) error {
	if _, err := w.Write(s.mem.Bytes()); err != nil {
		return err
	}
	if s.file == nil {
		return nil
	}
	_, err := io.Copy(w, s.inFile())
	return err
}

// inFile returns a reader of the bytes in the file.
func (s *spool) inFile() io.Reader { return io.NewSectionReader(s.file, 0, s.n-int64(s.mem.Len())) }

// decodeTo decodes the blocks that are kept, and writes the result to w.
func (s *spool) decodeTo(w io.Writer) error {
	var blocks io.Reader = bytes.NewReader(s.mem.Bytes())
	if s.file != nil {
		blocks = io.MultiReader(blocks, s.inFile())
	}
	return deflate.NewInflater().Inflate(w, blocks)
}

func (s *spool) reset() {
	s.mem.Reset()
	s.n = 0
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}
