package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// LineReader reads a file line by line. It must not be used concurrently.
type LineReader struct {
	*os.File
	End int64 // offset after the last line read, in bytes

	r    *bufio.Reader
	long []byte // a line that is longer than r's buffer
}

// OpenLines opens a file at an offset. It returns nil if there is no file.
func OpenLines(path string, at int64) (*LineReader, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &LineReader{File: f, End: at, r: bufio.NewReaderSize(f, 16<<10)}, nil
}

// Next returns the next complete line without its line end. The line is valid until the next call.
// If the last line is incomplete, because its writer was interrupted, Next returns io.EOF.
func (l *LineReader) Next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.long = append(l.long[:0], line...)
		for err == bufio.ErrBufferFull {
			line, err = l.r.ReadSlice('\n')
			l.long = append(l.long, line...)
		}
		line = l.long
	}
	if err != nil {
		return nil, err
	}
	l.End += int64(len(line))
	return line[:len(line)-1], nil
}

// EachLine calls fn with every complete line from offset at on, and the offset after it. It returns
// the offset after the last line that it has read, also with an error of fn, or 0 if there is no
// file.
func EachLine(path string, at int64, fn func(line []byte, end int64) error) (whole int64, err error) {
	l, err := OpenLines(path, at)
	if l == nil || err != nil {
		return 0, err
	}
	defer l.Close()
	for {
		line, err := l.Next()
		if err == io.EOF {
			return l.End, nil
		}
		if err == nil {
			err = fn(line, l.End)
		}
		if err != nil {
			return l.End, err
		}
	}
}

// Append appends p to a file that was not opened with O_APPEND. If that fails, as on a full disk,
// Append removes the written part of p, so that a later Append does not continue a torn line.
func Append(f *os.File, p []byte) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	return AppendAt(f, size, p)
}

// AppendAt is Append for a file in which only the first size bytes count. It overwrites the bytes
// after them.
func AppendAt(f *os.File, size int64, p []byte) error {
	_, err := f.WriteAt(p, size)
	if err == nil {
		return nil
	}
	if cut := f.Truncate(size); cut != nil {
		return fmt.Errorf("%w (and cutting %s back to %d bytes failed: %v)", err, f.Name(), size, cut)
	}
	return err
}
