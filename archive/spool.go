package archive

import (
	"bufio"
	"bytes"
	"io"
	"os"
)

// spoolMemory is how much a spool keeps in memory, in bytes.
const spoolMemory = 256 << 10

// spool keeps what is written to it, in memory and beyond spoolMemory in a
// temporary file, until it is reset.
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
		f, err := os.CreateTemp(s.dir, ".spool-*")
		if err != nil {
			return 0, err
		}
		os.Remove(f.Name()) // it lives as long as it is open
		s.file = f
	}
	n, err := s.file.Write(p)
	s.n += int64(n)
	return n, err
}

// copyTo writes all that is kept to w.
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

// inFile reads what is kept beyond the memory.
func (s *spool) inFile() io.Reader { return io.NewSectionReader(s.file, 0, s.n-int64(s.mem.Len())) }

// decodeTo writes what the blocks that are kept decode to.
func (s *spool) decodeTo(w io.Writer) error {
	var blocks io.Reader = bytes.NewReader(s.mem.Bytes())
	if s.file != nil {
		blocks = io.MultiReader(blocks, s.inFile())
	}
	return newInflater().run(bufio.NewReader(blocks), w)
}

func (s *spool) reset() {
	s.mem.Reset()
	s.n = 0
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}
