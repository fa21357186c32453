package frontier

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/weburl"
)

// The body of a hand-over is gzip of lines, each with a letter before it:
//
//	s  a URL of this cycle that is finished, as in the log
//	q  a URL that is queued, as in the log, in the order of the queue
//	v  a page of earlier cycles, as in the state file, in the order of keys
//	e  the number of lines before, which is the last line
//
// What this cycle's pages were like is left out: the pages may still be refused by the service, and
// then no later revisit may refer to them.

// maxBodyLine is the limit for a line of a hand-over, in bytes.
const maxBodyLine = 64 << 10

// ErrHandover says that a body is no hand-over of the host.
var ErrHandover = errors.New("no hand-over of this host")

// Has reports whether something is known about a host.
func (f *Frontier) Has(name string) bool {
	_, err := os.Stat(f.path(name))
	return err == nil
}

// TempFile returns an open file for a hand-over. The next Open deletes it, if the caller does not.
func (f *Frontier) TempFile() (*os.File, error) { return os.CreateTemp(f.temp(), "handover") }

// Export writes the body of a hand-over: what the host's next robot needs to go on. No page may be
// in hand. With states, the body has the pages of earlier cycles. queued reports whether these
// pages are in the queue already, and lines how many lines were written. If the host is damaged,
// Export writes nothing.
func (h *Host) Export(w io.Writer, states bool) (queued bool, lines int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.damaged {
		return false, 0, nil
	}
	z := gzip.NewWriter(w)
	out := bufio.NewWriter(z)
	put := func(kind byte, line []byte) error {
		lines++
		_, err := fmt.Fprintf(out, "%c%s\n", kind, line)
		return err
	}
	_, err = files.EachLine(h.path("log"), 0, func(line []byte, end int64) error {
		kind := byte('s')
		if end > h.last.consumed {
			kind = 'q'
		}
		return put(kind, line)
	})
	if err == nil && states {
		_, err = eachKnown(filepath.Join(h.dir(), stateFile), h.Name, func(k known) error {
			return put('v', bytes.TrimSuffix(k.append(nil, h.Name), []byte("\n")))
		})
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "e%d\n", lines)
	}
	if err = errors.Join(err, out.Flush(), z.Close()); err != nil {
		return false, lines, fmt.Errorf("hand-over of %s: %w", h.Name, err)
	}
	return h.last.queued, lines, nil
}

// Import enters an unknown host from the body of a hand-over. The body may inflate to limit bytes.
// If the body is wrong, the error wraps ErrHandover, and nothing has changed. queued is what Export
// has returned.
func (f *Frontier) Import(name string, body io.Reader, limit int64, queued bool) (err error) {
	f.mu.Lock()
	cycle := f.cycle
	f.mu.Unlock()
	dir, err := os.MkdirTemp(f.temp(), "handover")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("hand-over of %s: %w", name, errors.Join(err, os.RemoveAll(dir)))
		}
	}()
	if err := importInto(dir, name, cycle, body, limit, queued); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o755); err != nil {
		return err
	}
	return os.Rename(dir, f.path(name)) // fails if the host is known
}

// importInto writes a host's files into dir, from the body of a hand-over.
func importInto(dir, name string, cycle int64, body io.Reader, limit int64, queued bool) error {
	log, err := os.Create(filePath(dir, cycle, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	state, err := os.Create(filepath.Join(dir, stateFile))
	if err != nil {
		return err
	}
	defer state.Close()
	in := &importer{host: name, log: bufio.NewWriter(log), state: bufio.NewWriter(state), now: time.Now()}
	fmt.Fprintf(in.state, "%s%d\n", stateHeader, max(cycle-1, 0))
	if err := in.read(body, limit); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil { // its reader checks it at its end
		return fmt.Errorf("%w: %w", ErrHandover, err)
	}
	fmt.Fprintf(in.state, "%s%d\n", stateEnd, in.pages)
	if err := errors.Join(in.log.Flush(), in.state.Flush(), log.Sync(), state.Sync()); err != nil {
		return err
	}
	m := mark{place: place{consumed: in.consumed, logged: in.logged, queued: queued}}
	return os.WriteFile(filePath(dir, cycle, "journal"), m.line(), 0o644)
}

// importer reads a body. It writes each line anew from what it has understood, so that nothing else
// gets into the files.
type importer struct {
	host       string
	log, state *bufio.Writer // their errors show when they are flushed
	now        time.Time

	consumed, logged int64 // bytes of the log
	pages            int   // of the state
	last             uint64
}

func (i *importer) read(body io.Reader, limit int64) error {
	z, err := gzip.NewReader(body)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHandover, err)
	}
	lines := bufio.NewScanner(io.LimitReader(z, limit))
	lines.Buffer(nil, maxBodyLine)
	n, ended := 0, false
	for lines.Scan() {
		line := lines.Bytes()
		switch {
		case ended:
			return fmt.Errorf("%w: lines after its end", ErrHandover)
		case len(line) > 0 && line[0] == 'e':
			if ended = string(line[1:]) == strconv.Itoa(n); !ended {
				return fmt.Errorf("%w: it says that it has %.20q lines, after %d", ErrHandover, line[1:], n)
			}
			continue
		case len(line) == 0:
			return fmt.Errorf("%w: line %d is empty", ErrHandover, n+1)
		}
		if err := i.line(line[0], line[1:]); err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrHandover, n+1, err)
		}
		n++
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: after line %d: %w", ErrHandover, n, err)
	}
	if !ended {
		return fmt.Errorf("%w: it is cut off after line %d", ErrHandover, n)
	}
	return nil
}

func (i *importer) line(kind byte, line []byte) error {
	switch kind {
	case 's', 'q':
		e, err := parseEntry(line, i.host)
		if err == nil {
			err = i.own(e)
		}
		if err != nil {
			return err
		}
		whole := e.append(nil, i.host)
		i.logged += int64(len(whole))
		if kind == 's' {
			if i.consumed+int64(len(whole)) != i.logged {
				return errors.New("a finished URL stands behind queued ones")
			}
			i.consumed = i.logged
		}
		i.log.Write(whole)
		return nil
	case 'v':
		k, ok := parseKnown(line, i.host)
		if !ok {
			return errors.New("damaged")
		}
		if err := i.own(k.entry); err != nil {
			return err
		}
		if i.pages > 0 && k.key <= i.last {
			return errors.New("the pages are not in the order of their keys")
		}
		if k.visit.Full.After(i.now) { // by a clock that was wrong
			k.visit = Visit{}
		}
		i.pages, i.last = i.pages+1, k.key
		i.state.Write(k.append(nil, i.host))
		return nil
	}
	return fmt.Errorf("kind %q is unknown", kind)
}

// own checks that a URL is the host's own.
func (i *importer) own(e Entry) error {
	if err := checkURL(e.URL); err != nil {
		return err
	}
	if weburl.Host(e.URL) != i.host {
		return fmt.Errorf("%.200q is not of %s", e.URL, i.host)
	}
	if e.Depth < 0 || e.Redirects < 0 || e.Tries < 0 {
		return fmt.Errorf("%.200q has a negative number", e.URL)
	}
	return nil
}
