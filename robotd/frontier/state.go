package frontier

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
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

// The state file: a line "sheaf-visits 2 <cycle>", then one line per page in the
// order of its key: 16 hexadecimal digits, a checksum of what follows, the visit's
// fields, the log's fields; at last "~end <number of pages>". Where a line is damaged, no visit of the host is believed any
// more: a page that answers "not modified" would hide the links to those that are lost.
const (
	stateHeader = "sheaf-visits 2 "
	stateEnd    = "~end " // sorts behind every key
)

// known is a line of the state file.
type known struct {
	key   string
	visit Visit
	entry Entry
}

func (k known) line() string {
	return k.key + " " + checked(k.visit.fields()+" "+k.entry.fields()) + "\n"
}

func parseKnown(line string) (k known, ok bool) {
	key, rest, _ := strings.Cut(line, " ")
	text, ok := check(rest)
	if !ok || len(key) != 16 {
		return k, false
	}
	visit, err := parseVisit(text)
	if err != nil {
		return k, false
	}
	// The entry is the last four of the fields, none of which holds a blank.
	f := strings.Split(text, " ")
	entry, err := parseFields(strings.Join(f[max(0, len(f)-4):], " "))
	if err != nil || fmt.Sprintf("%016x", hash(entry.URL)) != key {
		return k, false
	}
	return known{key, visit, entry}, true
}

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
	k, ok := parseKnown(line)
	return k.visit, ok, nil
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
	fresh := make(map[string]known, len(visits))
	_, err = eachEntry(filePath(dir, cycle, "log"), func(e Entry) {
		if v, ok := visits[hash(e.URL)]; ok {
			e.Tries, e.Redirects = 0, 0
			k := known{fmt.Sprintf("%016x", hash(e.URL)), v, e}
			fresh[k.key] = k
		}
	}, func() {}) // a page that is lost here is met again, and taken in full
	if err != nil {
		return err
	}
	return rewriteState(dir, cycle, fresh, newest.Add(-keepVisits))
}

// rewriteState writes the old state overlaid with what is fresh, and renames it into place.
func rewriteState(dir string, cycle int64, fresh map[string]known, forget time.Time) (err error) {
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
	damaged, err := eachKnown(path, func(known) error { return nil })
	if err != nil {
		return err
	}
	keys := slices.Sorted(maps.Keys(fresh))
	w := bufio.NewWriter(tmp)
	fmt.Fprintf(w, "%s%d\n", stateHeader, cycle)
	written := 0
	write := func(k known) {
		written++
		if damaged { // pages whose lines are lost are found again by the links of all others
			k.visit = Visit{}
		}
		w.WriteString(k.line()) // an error stays until Flush
	}
	next := 0
	put := func(upTo string) {
		for ; next < len(keys) && (upTo == "" || keys[next] < upTo); next++ {
			if k := fresh[keys[next]]; !k.visit.Gone {
				write(k)
			}
		}
	}
	_, err = eachKnown(path, func(k known) error {
		put(k.key)
		if _, replaced := fresh[k.key]; !replaced && k.visit.Full.After(forget) {
			write(k)
		}
		return nil
	})
	if err != nil {
		return err
	}
	put("")
	fmt.Fprintf(w, "%s%d\n", stateEnd, written)
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

// eachKnown calls fn for every page's line of the state file, and reports whether
// there were others that are damaged.
func eachKnown(path string, fn func(known) error) (damaged bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	header, err := r.ReadString('\n')
	damaged = !strings.HasPrefix(header, stateHeader)
	pages, ended := 0, false
	for err == nil {
		var line string
		if line, err = r.ReadString('\n'); err != nil {
			damaged = damaged || line != "" || !ended
			break
		}
		if line == fmt.Sprintf("%s%d\n", stateEnd, pages) {
			ended = true
			continue
		}
		pages++
		k, ok := parseKnown(line[:len(line)-1])
		if !ok {
			damaged = true
			continue
		}
		if err := fn(k); err != nil {
			return damaged, err
		}
	}
	if err != io.EOF {
		return damaged, err
	}
	return damaged || !ended, nil
}

// PushKnown queues every page that earlier cycles collected and that is not
// queued yet: a page that answers "not modified" shows no links, and what it
// leads to must be visited all the same. It returns how many were queued. Where the
// state is damaged it drops the visits, once what can be read of it is queued.
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
	path := filepath.Join(h.dir, "state")
	damaged, err := eachKnown(path, func(k known) error {
		if entries = append(entries, k.entry); len(entries) == chunk {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil && damaged {
		err = os.Remove(path)
	}
	if err != nil {
		return total, fmt.Errorf("frontier of %s: %w", h.Name, err)
	}
	return total, nil
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
	h.last, h.lines, h.journal.size = blank, -1, int64(len(line))
	return nil
}
