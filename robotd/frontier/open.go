package frontier

import (
	"errors"
	"math/rand/v2"
	"os"

	"sheaf/internal/files"
)

func (f *Frontier) open(name string, cycle int64) (*Host, error) {
	h := &Host{Name: name, front: f, cycle: cycle}
	if err := os.MkdirAll(h.dir(), 0o755); err != nil {
		return nil, err
	}
	if err := settleBefore(f.temp(), h.dir(), name, cycle); err != nil {
		return nil, err
	}
	return h, h.reopen()
}

// dir returns the host's folder. It is not stored, as the path is longer than most of a Host's
// fields.
func (h *Host) dir() string { return h.front.path(h.Name) }

func (h *Host) path(kind string) string { return filePath(h.dir(), h.cycle, kind) }

// reopen reads the cycle's files. It leaves the files of a damaged host alone.
func (h *Host) reopen() error {
	if _, err := os.Stat(h.path(flag)); err == nil {
		h.damaged = true
		return nil
	}
	end, err := endOfJournal(h.path("journal"), func(place) bool { return true })
	if err != nil {
		return err
	}
	whole, err := h.readLog(end.last.consumed)
	if errors.Is(err, errDamaged) || err == nil && end.last.logged > whole {
		h.damaged = true
		return nil
	}
	if err != nil {
		return err
	}
	if err := cutTo(h.path("log"), whole); err != nil {
		return err
	}
	h.logSize = whole
	if err := h.setPlace(end); err != nil {
		return err
	}
	return passPostponed(h)
}

// setPlace accepts the journal up to the given end and truncates the rest.
func (h *Host) setPlace(end journalEnd) error {
	if err := cutTo(h.path("journal"), end.size); err != nil {
		return err
	}
	h.last, h.journalSize, h.marks = end.last, end.size, end.marks
	if end.forgotten {
		h.marks = unknown
	}
	h.ahead.Store(nil)
	return nil
}

// errDamaged says that a line of the log cannot be read.
var errDamaged = errors.New("the log is damaged")

// readLog adds the URLs of the log to the seen set and counts those queued after offset consumed.
// It returns the length of the log's complete lines.
func (h *Host) readLog(consumed int64) (whole int64, err error) {
	h.salt, h.urls, h.left = rand.Uint64(), 0, 0
	const batch = 512
	var url []byte
	keys := make([]uint64, 0, batch)
	learn := func() error {
		fresh, err := h.front.seen.Learn(keys)
		h.urls += fresh
		keys = keys[:0]
		return err
	}
	at, lines := int64(0), 0
	add := func(line []byte, end int64) error {
		_, short, ok := splitLine(line)
		if !ok {
			return errDamaged
		}
		if at >= consumed {
			h.left++
		}
		at = end
		lines++
		url = appendURL(url[:0], short, h.Name)
		if keys = append(keys, hash(string(url))^h.salt); len(keys) < batch {
			return nil
		}
		return learn()
	}
	if whole, err = files.EachLine(h.path("log"), 0, add); err != nil {
		return whole, err
	}
	err = learn()
	h.repeats = lines > h.urls
	return whole, err
}
