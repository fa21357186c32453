package robotd

import (
	"bufio"
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

	"sheaf/internal/wire"
)

// collectionLog is the log that P3 hands in: sizes and times of every exchange.
// Lines are written as they come; a file is closed when it is due, and leaves the
// folder when the manager has it.
type collectionLog struct {
	dir   string
	robot string

	mu   sync.Mutex // guards all below
	file *os.File
	hour time.Time // that the file was last told
}

const currentLog = "current"

func openLog(dir, robot string) (*collectionLog, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, currentLog), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	l := &collectionLog{dir: dir, robot: robot, file: f}
	return l, l.mend()
}

// mend cuts a last line that a crash tore.
func (l *collectionLog) mend() error {
	size, whole := int64(0), int64(0)
	r := bufio.NewReader(l.file)
	for {
		line, err := r.ReadSlice('\n')
		size += int64(len(line))
		switch {
		case err == nil:
			whole = size
		case errors.Is(err, io.EOF):
			if err := l.file.Truncate(whole); err != nil {
				return err
			}
			_, err = l.file.Seek(whole, io.SeekStart)
			return err
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// add writes an exchange, and before the first of each hour the time.
func (l *collectionLog) add(line wire.LogLine) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var p []byte
	if now := time.Now(); now.Truncate(time.Hour) != l.hour {
		l.hour = now.Truncate(time.Hour)
		p = append(p, wire.TimeComment(now)...)
	}
	_, err := l.file.Write(line.Append(p))
	return err
}

// comment notes what is no exchange: a page refused by robots.txt, a host without
// an address. Readers of the log pass over comments.
func (l *collectionLog) comment(format string, args ...any) error {
	return l.write(fmt.Appendf([]byte("# "), "%s\n", oneLine(fmt.Sprintf(format, args...))))
}

func oneLine(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' {
			b[i] = ' '
		}
	}
	return string(b)
}

func (l *collectionLog) write(p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.file.Write(p)
	return err
}

// rotate closes what there is under a name of its own.
func (l *collectionLog) rotate(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	st, err := l.file.Stat()
	if err != nil || st.Size() == 0 {
		return err
	}
	if err := errors.Join(l.file.Sync(), l.file.Close()); err != nil {
		return err
	}
	path := filepath.Join(l.dir, currentLog)
	name, err := l.newName(now)
	if err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(l.dir, name)); err != nil {
		return err
	}
	l.hour = time.Time{}
	l.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	return err
}

// newName returns a name that no log has had: names go by the second, and two
// cycles may end within one.
func (l *collectionLog) newName(now time.Time) (string, error) {
	mark := filepath.Join(l.dir, "last.json")
	var last string
	if err := loadJSON(mark, &last); err != nil {
		return "", err
	}
	for wire.LogName(l.robot, now) <= last {
		now = now.Add(time.Second)
	}
	last = wire.LogName(l.robot, now)
	return last, saveJSON(mark, last)
}

// submit hands in every closed log, the oldest first; one that the manager has
// is removed. What cannot be handed in now stays.
func (l *collectionLog) submit(ctx context.Context, m *manager) error {
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

func submitFile(ctx context.Context, m *manager, path string) error {
	return m.submitLog(ctx, func() (io.Reader, error) {
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

func (l *collectionLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// writeLog packs a log's lines, comments included, as P3 wants them.
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
