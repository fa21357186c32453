package frontier

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// keepVisits is how long a page that is met no more is remembered.
const keepVisits = 90 * 24 * time.Hour

// The state file: a line "sheaf-visits 1 <cycle>", then one line per page in the
// order of its key: 16 hexadecimal digits, the visit's fields, the URL's log line.
const stateHeader = "sheaf-visits 1 "

// Visit returns what is known of a page from earlier cycles.
func (h *Host) Visit(url string) (Visit, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, err := os.Open(filepath.Join(h.dir, "state"))
	if os.IsNotExist(err) {
		return Visit{}, false, nil
	}
	if err != nil {
		return Visit{}, false, err
	}
	defer f.Close()
	line, ok, err := search(f, fmt.Sprintf("%016x ", hash(url)))
	if err != nil || !ok {
		return Visit{}, false, err
	}
	v, err := parseVisit(line[17:])
	if err != nil {
		return Visit{}, false, fmt.Errorf("%s: %w; remove the file: pages are then taken in full", f.Name(), err)
	}
	return v, true, nil
}

// search finds the line that begins with key in a file of sorted lines, by
// halving the range of offsets in which it can begin.
func search(f *os.File, key string) (string, bool, error) {
	st, err := f.Stat()
	if err != nil {
		return "", false, err
	}
	var failed error
	// lineAt returns the first line that begins at or after off.
	lineAt := func(off int64) string {
		r := bufio.NewReader(io.NewSectionReader(f, off, st.Size()-off))
		if off > 0 {
			r.Reset(io.NewSectionReader(f, off-1, st.Size()-off+1))
			if _, err := r.ReadString('\n'); err != nil && err != io.EOF {
				failed = err
			}
		}
		line, err := r.ReadString('\n')
		if err != nil && err != io.EOF {
			failed = err
		}
		return strings.TrimSuffix(line, "\n")
	}
	first := int64(len(lineAt(0))) + 1 // behind the header
	span := int(st.Size() - first)
	if span <= 0 {
		return "", false, failed
	}
	at := sort.Search(span, func(i int) bool {
		line := lineAt(first + int64(i))
		return line == "" || line >= key
	})
	line := lineAt(first + int64(at))
	return line, strings.HasPrefix(line, key), failed
}

// settleBefore merges into the state the visits of every cycle before the given
// one and removes the cycle's files. A crash in between is harmless: the state
// names the cycle it has, and merging twice gives the same.
func settleBefore(dir string, cycle int64) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err
	}
	var old []int64
	for _, path := range logs {
		n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), ".log"), 10, 64)
		if err != nil {
			return fmt.Errorf("%s is not named after a cycle; move it away", path)
		}
		if n < cycle {
			old = append(old, n)
		}
	}
	slices.Sort(old)
	for _, n := range old {
		if err := settle(dir, n); err != nil {
			return fmt.Errorf("settling cycle %d: %w", n, err)
		}
		for _, kind := range []string{"journal", "seen", "log"} {
			if err := os.Remove(filePath(dir, n, kind)); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
	}
	return nil
}

func settle(dir string, cycle int64) error {
	marks, _, err := readJournal(filePath(dir, cycle, "journal"))
	if err != nil {
		return err
	}
	visits := make(map[uint64]Visit)
	newest := time.Time{}
	for _, m := range marks {
		if m.visit.Gone || !m.visit.Full.IsZero() {
			visits[m.key] = m.visit
		}
		if m.visit.Full.After(newest) {
			newest = m.visit.Full
		}
	}
	lines := make(map[string]string, len(visits))
	err = eachLine(filePath(dir, cycle, "log"), func(line string) error {
		e, err := parseEntry(line)
		if err != nil {
			return err
		}
		key := hash(e.URL)
		if v, ok := visits[key]; ok {
			e.Tries, e.Redirects = 0, 0
			lines[fmt.Sprintf("%016x", key)] = v.fields() + " " + strings.TrimSuffix(e.line(), "\n")
			if v.Gone {
				lines[fmt.Sprintf("%016x", key)] = ""
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return rewriteState(dir, cycle, lines, newest.Add(-keepVisits))
}

// rewriteState writes the old state overlaid with lines, and renames it into place.
func rewriteState(dir string, cycle int64, lines map[string]string, forget time.Time) (err error) {
	path := filepath.Join(dir, "state")
	tmp, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
		}
	}()
	keys := make([]string, 0, len(lines))
	for key := range lines {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	w := bufio.NewWriter(tmp)
	fmt.Fprintf(w, "%s%d\n", stateHeader, cycle)
	next := 0
	put := func(upTo string) {
		for ; next < len(keys) && (upTo == "" || keys[next] < upTo); next++ {
			if line := lines[keys[next]]; line != "" {
				fmt.Fprintf(w, "%s %s\n", keys[next], line)
			}
		}
	}
	err = eachKnown(path, func(line string) error {
		key := line[:16]
		put(key)
		if _, replaced := lines[key]; replaced {
			return nil
		}
		v, err := parseVisit(line[17:])
		if err != nil {
			return fmt.Errorf("%s: line %q: %w; remove the file: pages are then taken in full", path, line, err)
		}
		if v.Full.After(forget) {
			fmt.Fprintln(w, line)
		}
		return nil
	})
	if err != nil {
		return err
	}
	put("")
	if err := w.Flush(); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// eachKnown calls fn for every page's line of the state file.
func eachKnown(path string, fn func(string) error) error {
	first := true
	return eachLine(path, func(line string) error {
		if first {
			first = false
			if !strings.HasPrefix(line, stateHeader) {
				return fmt.Errorf("%s does not begin with %q; remove the file: pages are then taken in full", path, stateHeader)
			}
			return nil
		}
		if len(line) < 18 {
			return fmt.Errorf("%s: short line %q; remove the file: pages are then taken in full", path, line)
		}
		return fn(line)
	})
}

// eachLine calls fn for every whole line of a file, which may be missing.
func eachLine(path string, fn func(string) error) error {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(line[:len(line)-1]); err != nil {
			return err
		}
	}
}

// PushKnown queues every page that earlier cycles collected and that is not
// queued yet: a page that answers "not modified" shows no links, and what it
// leads to must be visited all the same. It returns how many were queued.
func (h *Host) PushKnown() (int, error) {
	const chunk = 1000
	var entries []Entry
	total := 0
	flush := func() error {
		n, err := h.Push(entries...)
		total += n
		entries = entries[:0]
		return err
	}
	err := eachKnown(filepath.Join(h.dir, "state"), func(line string) error {
		// The log line is the last four of the fields, none of which holds a blank.
		f := strings.Split(line, " ")
		e, err := parseEntry(strings.Join(f[max(0, len(f)-4):], " "))
		if err != nil {
			return err
		}
		if entries = append(entries, e); len(entries) == chunk {
			return flush()
		}
		return nil
	})
	if err != nil {
		return total, fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	return total, flush()
}

// forgetVisits removes the state and blanks what the running cycle learned.
func (h *Host) forgetVisits() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := os.Remove(filepath.Join(h.dir, "state")); err != nil && !os.IsNotExist(err) {
		return err
	}
	blank := h.last
	blank.key, blank.visit = 0, Visit{}
	line := []byte(blank.line())
	fresh := h.journal.path + ".new"
	if err := os.WriteFile(fresh, line, 0o644); err != nil {
		return err
	}
	if err := os.Rename(fresh, h.journal.path); err != nil {
		return err
	}
	h.last, h.journal.size = blank, int64(len(line))
	return nil
}
