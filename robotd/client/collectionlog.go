package client

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
)

// CollectionLog is the log of the collection (P3): sizes and times of every exchange with a web
// server. Lines are written at once. Rotate closes the file, and Submit removes closed files that
// the manager has. Its methods may be called concurrently.
type CollectionLog struct {
	dir   string
	robot string

	mu   sync.Mutex // guards all below
	file *os.File
	hour time.Time // of the last time in the file
}

const currentLog = "current"

// OpenCollectionLog opens the log in a folder, or begins one.
func OpenCollectionLog(dir, robot string) (*CollectionLog, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, currentLog), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	whole, err := files.EachLine(f.Name(), 0, func([]byte, int64) error { return nil })
	if err == nil {
		err = f.Truncate(whole) // without an incomplete last line, which a crash leaves
	}
	return &CollectionLog{dir: dir, robot: robot, file: f}, err
}

// Add writes an exchange and, before the first exchange of each hour, the time.
func (l *CollectionLog) Add(line wire.LogLine) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var p []byte
	now := time.Now()
	hour := now.Truncate(time.Hour)
	if hour != l.hour {
		p = append(p, wire.TimeComment(now)...)
	}
	if err := files.Append(l.file, line.Append(p)); err != nil {
		return err
	}
	l.hour = hour
	return nil
}

// Comment writes a line that is no exchange, such as a page refused by robots.txt or a host without
// an address.
func (l *CollectionLog) Comment(format string, args ...any) error {
	line := fmt.Appendf([]byte("# "), format, args...)
	for i, c := range line {
		if c < ' ' {
			line[i] = ' '
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return files.Append(l.file, append(line, '\n'))
}

// Rotate renames the current file, so that Submit sends it, and begins another, unless the file is
// empty. If that fails, the file stays the current one.
func (l *CollectionLog) Rotate(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	st, err := l.file.Stat()
	if err != nil || st.Size() == 0 {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	path := filepath.Join(l.dir, currentLog)
	name, err := l.newName(now)
	if err != nil {
		return err
	}
	closed := filepath.Join(l.dir, name)
	if err := os.Rename(path, closed); err != nil {
		return err
	}
	next, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return errors.Join(err, os.Rename(closed, path))
	}
	was := l.file
	l.file, l.hour = next, time.Time{}
	return was.Close()
}

// newName returns a name that no log has had. Names have the time in seconds, and two cycles may
// end within one second.
func (l *CollectionLog) newName(now time.Time) (string, error) {
	mark := filepath.Join(l.dir, "last.json")
	var last string
	if err := config.LoadJSON(mark, &last); err != nil {
		return "", err
	}
	for wire.LogName(l.robot, now) <= last {
		now = now.Add(time.Second)
	}
	last = wire.LogName(l.robot, now)
	return last, config.SaveJSON(mark, last)
}

// Submit sends every closed log, the oldest first, and removes those that the manager has taken.
func (l *CollectionLog) Submit(ctx context.Context, m LogTaker) error {
	paths, err := filepath.Glob(filepath.Join(l.dir, l.robot+".*"))
	if err != nil {
		return err
	}
	slices.Sort(paths)
	for _, path := range paths {
		if err := submitFile(ctx, m, path); err != nil {
			return fmt.Errorf("log %s: %w", filepath.Base(path), err)
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// LogTaker takes logs for the manager, as Client does.
type LogTaker interface {
	// SubmitLog sends a log. It calls open for each try.
	SubmitLog(ctx context.Context, open func() (io.Reader, error)) error
}

func submitFile(ctx context.Context, m LogTaker, path string) error {
	return m.SubmitLog(ctx, func() (io.Reader, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		r, w := io.Pipe()
		go func() {
			w.CloseWithError(errors.Join(writeLog(w, filepath.Base(path), f), f.Close()))
		}()
		return r, nil
	})
}

// Close closes the current file, so that Add and Comment fail from then on.
func (l *CollectionLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// writeLog writes a log as P3 wants it: a line with its name, then its lines as gzip.
func writeLog(w io.Writer, name string, lines io.Reader) error {
	if _, err := io.WriteString(w, name+"\n"); err != nil {
		return err
	}
	z := gzip.NewWriter(w)
	if _, err := io.Copy(z, lines); err != nil {
		return err
	}
	return z.Close()
}
