package frontier

import (
	"bufio"
	"errors"
	"io"
	"os"
)

// lineReader reads a file line by line.
type lineReader struct {
	f    *os.File
	r    *bufio.Reader
	long []byte // a line that is longer than r's buffer
	end  int64  // offset after the last line read
}

// openLines opens a file at an offset. It returns nil if there is no file.
func openLines(path string, at int64) (*lineReader, error) {
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
	return &lineReader{f: f, r: bufio.NewReaderSize(f, 16<<10), end: at}, nil
}

// next returns the next complete line without its line end. The line is valid until the next call.
// If the last line is incomplete, because its writer was interrupted, next returns io.EOF.
func (l *lineReader) next() ([]byte, error) {
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
	l.end += int64(len(line))
	return line[:len(line)-1], nil
}

func (l *lineReader) close() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}

// eachLine calls fn with every complete line from offset at on, and the offset after it. It returns
// the end of the last such line.
func eachLine(path string, at int64, fn func(line []byte, end int64) error) (whole int64, err error) {
	l, err := openLines(path, at)
	if l == nil || err != nil {
		return 0, err
	}
	defer l.close()
	for {
		line, err := l.next()
		if err == io.EOF {
			return l.end, nil
		}
		if err == nil {
			err = fn(line, l.end)
		}
		if err != nil {
			return l.end, err
		}
	}
}
