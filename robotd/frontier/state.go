package frontier

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/files"
)

// keepVisits is how long a page is remembered after the last visit that found it.
const keepVisits = 90 * 24 * time.Hour

// The state file has a line "sheaf-visits 3 <cycle>", then one line for each page in the order of
// keys: 16 hexadecimal digits, a space, a checksum of the rest, the visit's fields, or, for a page
// that was never visited, "+" and the number of links to it unless that is 0; then the depth, and
// the URL as in the log. The last line is "~end <number of pages>". If a line is damaged, none of
// the host's visits is used any more: a page that answers "not modified" would hide the links to
// the lost pages.
const (
	stateFile   = "state"
	stateHeader = "sheaf-visits 3 "
	stateEnd    = "~end " // sorts after every key
)

// known is a line of the state file.
type known struct {
	key   uint64
	visit Visit
	entry Entry
}

func (k known) append(b []byte, host string) []byte {
	visit := k.visit.fields()
	if k.entry.Links > 0 {
		visit = fmt.Sprintf("%s +%d", visit, k.entry.Links)
	}
	text := fmt.Sprintf("%s %d %s", visit, k.entry.Depth, shorten(k.entry.URL, host))
	return fmt.Appendf(b, "%016x %s\n", k.key, checked(text))
}

func parseKnown(line []byte, host string) (k known, ok bool) {
	digits, rest, _ := bytes.Cut(line, []byte(" "))
	text, ok := check(rest)
	if !ok || len(digits) != 16 {
		return k, false
	}
	key, err := strconv.ParseUint(string(digits), 16, 64)
	if err != nil {
		return k, false
	}
	visit, err := parseVisit(string(text))
	if err != nil {
		return k, false
	}
	// Links, depth and URL are the last fields, and none contains a space.
	text, short := cutLast(text)
	url := appendURL(nil, short, host)
	text, digits = cutLast(text)
	depth, err := strconv.Atoi(string(digits))
	if err != nil || hash(string(url)) != key {
		return k, false
	}
	links := 0
	if _, digits = cutLast(text); bytes.HasPrefix(digits, []byte("+")) && !visit.learned() {
		if links, err = strconv.Atoi(string(digits[1:])); err != nil || links < 0 {
			return k, false
		}
	}
	return known{key, visit, Entry{URL: string(url), Depth: depth, Links: links}}, true
}

// cutLast splits off the last field of a line.
func cutLast(text []byte) (rest, field []byte) {
	at := bytes.LastIndexByte(text, ' ')
	return text[:max(at, 0)], text[at+1:]
}

// Visit returns what is known about a page from earlier cycles.
func (h *Host) Visit(url string) (Visit, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, err := os.Open(filepath.Join(h.dir(), stateFile))
	if os.IsNotExist(err) {
		return Visit{}, false, nil
	}
	if err != nil {
		return Visit{}, false, err
	}
	defer f.Close()
	line, err := search(f, fmt.Sprintf("%016x ", hash(url)))
	if err != nil || line == nil {
		return Visit{}, false, err
	}
	k, ok := parseKnown(line, h.Name)
	return k.visit, ok, nil
}

// search returns the line that begins with key in a file of sorted lines, or nil. It bisects the
// range of offsets.
func search(f *os.File, key string) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var failed error
	buf := make([]byte, 1<<10)
	// lineAt returns the first line that begins at or after off.
	lineAt := func(off int64) []byte {
		for failed == nil {
			n, err := f.ReadAt(buf, max(off-1, 0))
			if err != nil && err != io.EOF {
				failed = err
				break
			}
			data := buf[:n]
			if off > 0 {
				_, data, _ = bytes.Cut(data, []byte("\n"))
			}
			line, _, whole := bytes.Cut(data, []byte("\n"))
			if whole || n < len(buf) {
				return line
			}
			buf = make([]byte, 2*len(buf))
		}
		return nil
	}
	first := int64(len(lineAt(0))) + 1 // after the header
	span := int(st.Size() - first)
	if span <= 0 || failed != nil {
		return nil, failed
	}
	at := sort.Search(span, func(i int) bool {
		line := lineAt(first + int64(i))
		return len(line) == 0 || string(line) >= key
	})
	if line := lineAt(first + int64(at)); bytes.HasPrefix(line, []byte(key)) {
		return line, failed
	}
	return nil, failed
}

// stateInfo is what a state file says beside its pages.
type stateInfo struct {
	cycle   int64 // the last cycle that is merged into the file; 0: none that is settled
	damaged bool  // lines are lost
}

// eachKnown calls fn for every readable page of the state file, which may be missing.
func eachKnown(path, host string, fn func(known) error) (s stateInfo, err error) {
	st, err := os.Stat(path)
	if os.IsNotExist(err) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	lines, pages, ended := 0, 0, false
	whole, err := files.EachLine(path, 0, func(line []byte, _ int64) error {
		if lines++; lines == 1 {
			cycle, ok := strings.CutPrefix(string(line), stateHeader)
			s.damaged = !ok
			s.cycle, _ = strconv.ParseInt(cycle, 10, 64)
			return nil
		}
		if n, ok := bytes.CutPrefix(line, []byte(stateEnd)); ok && string(n) == strconv.Itoa(pages) {
			ended = true
			return nil
		}
		pages++
		k, ok := parseKnown(line, host)
		if !ok {
			s.damaged = true
			return nil
		}
		return fn(k)
	})
	s.damaged = s.damaged || !ended || whole < st.Size()
	return s, err
}

// dropVisits removes the state, and replaces the journal by one line for a place.
func dropVisits(h *Host, last place) error {
	if err := os.Remove(filepath.Join(h.dir(), stateFile)); err != nil && !os.IsNotExist(err) {
		return err
	}
	line := mark{place: last}.line()
	if err := files.WriteFile(h.path("journal"), line); err != nil {
		return err
	}
	h.marks, h.journalSize = unknown, int64(len(line))
	return nil
}

// eachLeft calls fn for URLs that a cycle found but did not visit. It skips lost entries.
func eachLeft(dir, host string, cycle int64, fn func(known) error) error {
	end, err := endOfJournal(filePath(dir, cycle, "journal"), func(place) bool { return true })
	if err != nil {
		return err
	}
	_, err = files.EachLine(filePath(dir, cycle, "log"), end.last.consumed, func(line []byte, _ int64) error {
		e, err := parseEntry(line, host)
		if err != nil {
			return nil
		}
		return fn(known{hash(e.URL), Visit{}, Entry{URL: e.URL, Depth: e.Depth}})
	})
	return err
}

// eachVisited calls fn for the visits of a cycle, in order. A mark has the offset of its entry in
// the log, so both files are read once, side by side. Visits whose entry is lost are skipped: the
// page will be found again, and archived in full.
func eachVisited(dir, host string, cycle int64, fn func(known) error) error {
	log, err := files.OpenLines(filePath(dir, cycle, "log"), 0)
	if log == nil || err != nil {
		return err
	}
	defer log.Close()
	var line []byte
	return eachMark(filePath(dir, cycle, "journal"), func(m mark) error {
		if !m.visit.learned() {
			return nil
		}
		if m.own != nil {
			return fn(known{m.key, m.visit, *m.own})
		}
		for log.End < m.consumed {
			var err error
			if line, err = log.Next(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
		e, err := parseEntry(line, host)
		if log.End != m.consumed || err != nil || hash(e.URL) != m.key {
			return nil
		}
		return fn(known{m.key, m.visit, Entry{URL: e.URL, Depth: e.Depth}})
	})
}
