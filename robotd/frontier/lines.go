package frontier

import (
	"bufio"
	"errors"
	"io"
	"os"
)

// lineReader reads a file's lines one after another without keeping them.
type lineReader struct {
	f    *os.File
	r    *bufio.Reader
	long []byte // of a line that the reader's buffer does not hold
	end  int64  // offset behind the last line that was read
}

// openLines opens a file at an offset; nil where there is no file.
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

// next returns the next whole line without its end, which is valid until the next call;
// io.EOF before a last line that has none: its writer was interrupted.
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

// eachLine calls fn for every whole line from offset at on, with the offset behind it,
// and returns where the last one ends.
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
