package frontier

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/files"
)

// Visit is what a page was like when it was last archived in full. The next visit uses it to ask
// only for changes.
type Visit struct {
	Digest       string    // payload digest of the full copy: "sha256:" and base32
	Full         time.Time // date of the full copy's record, which revisits refer to
	ETag         string
	LastModified string
	Gone         bool // the page no longer exists: forget what was known about it
	History
}

// learned reports whether the visit says anything about the page.
func (v Visit) learned() bool { return v.Gone || !v.Full.IsZero() }

// place describes the host's files when a line was written to the journal.
type place struct {
	consumed int64  // bytes of the log that are finished
	logged   int64  // size of the log
	queued   bool   // the pages of earlier cycles are in the log: see PushKnown
	segment  string // the host's open segment
	end      int64  // size of that segment
}

// mark is one line of the journal: the checksum of the rest, the numbers of place and key in
// hexadecimal, the segment's name, the visit, and for a page from the lane its entry.
type mark struct {
	place
	key   uint64
	visit Visit  // Full is zero if the page was not collected
	own   *Entry // the page, if it is not the log's entry at consumed; else nil
}

func (m mark) line() []byte {
	queued := 0
	if m.queued {
		queued = 1
	}
	text := fmt.Appendf(nil, "%x %x %x %x %x %s %s", m.consumed, m.logged, queued, m.end, m.key, strconv.Quote(m.segment), m.visit.fields())
	if m.own != nil {
		text = m.own.appendOwn(text)
	}
	return append([]byte(checked(string(text))), '\n')
}

// gone is written instead of the date of a page that no longer exists.
const gone = -1

func (v Visit) fields() string {
	at := int64(0)
	switch {
	case v.Gone:
		at = gone
	case !v.Full.IsZero():
		at = v.Full.UnixNano()
	}
	text := fmt.Sprintf("%d %s %s %s", at, strconv.Quote(v.Digest), strconv.Quote(v.ETag), strconv.Quote(v.LastModified))
	return string(v.History.appendTo([]byte(text)))
}

// parseVisit parses the result of fields, and ignores what follows it.
func parseVisit(s string) (Visit, error) {
	number, rest, _ := strings.Cut(s, " ")
	at, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return Visit{}, err
	}
	v := Visit{Gone: at == gone}
	if at > 0 {
		v.Full = time.Unix(0, at).UTC()
	}
	for _, p := range []*string{&v.Digest, &v.ETag, &v.LastModified} {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return Visit{}, fmt.Errorf("%q: %w", rest, err)
		}
		if *p, err = strconv.Unquote(quoted); err != nil {
			return Visit{}, err
		}
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	v.History = parseHistory(rest)
	return v, nil
}

// parsePlace parses a mark up to its visit, and returns the visit's text unparsed. That suffices to
// find the end of a long journal.
func parsePlace(line []byte) (p place, key uint64, visit []byte, ok bool) {
	text, ok := check(line)
	if !ok {
		return p, 0, nil, false
	}
	var n [5]uint64
	for i := range n {
		if n[i], text, ok = cutHex(text); !ok {
			return p, 0, nil, false
		}
	}
	quoted, err := strconv.QuotedPrefix(string(text[:min(len(text), longestName)]))
	if err != nil {
		return p, 0, nil, false
	}
	segment, err := strconv.Unquote(quoted)
	if err != nil {
		return p, 0, nil, false
	}
	p = place{consumed: int64(n[0]), logged: int64(n[1]), queued: n[2] == 1, segment: segment, end: int64(n[3])}
	return p, n[4], bytes.TrimPrefix(text[len(quoted):], []byte(" ")), true
}

// longestName is a limit for a segment's quoted name.
const longestName = 512

// cutHex parses a hexadecimal number and removes it with the space after it.
func cutHex(text []byte) (n uint64, rest []byte, ok bool) {
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		default:
			return n, text[i+1:], c == ' ' && i > 0
		}
	}
	return 0, nil, false
}

func parseMark(line []byte) (m mark, ok bool) {
	var visit []byte
	if m.place, m.key, visit, ok = parsePlace(line); !ok {
		return m, false
	}
	var err error
	var rest string
	rest, m.own = cutOwn(string(visit))
	m.visit, err = parseVisit(rest)
	return m, err == nil
}

// eachMark calls fn for every mark of a journal. It skips damaged lines: the next line has the
// complete place anyway.
func eachMark(path string, fn func(mark) error) error {
	_, err := files.EachLine(path, 0, func(line []byte, _ int64) error {
		if m, ok := parseMark(line); ok {
			return fn(m)
		}
		return nil
	})
	return err
}

// journalEnd is a summary of a journal.
type journalEnd struct {
	last      place // of the last accepted mark
	size      int64 // offset after it
	marks     int   // number of marks up to it
	after     int   // number of marks after it
	forgotten bool  // visits were forgotten, and their marks with them
}

// endOfJournal finds the last mark for which counts returns true.
func endOfJournal(path string, counts func(place) bool) (journalEnd, error) {
	var e journalEnd
	blank := false
	_, err := files.EachLine(path, 0, func(line []byte, end int64) error {
		p, key, _, ok := parsePlace(line)
		if !ok {
			return nil
		}
		blank = blank || key == 0
		e.after++
		if counts(p) {
			e = journalEnd{last: p, size: end, marks: e.marks + e.after, forgotten: blank}
		}
		return nil
	})
	return e, err
}
