package frontier

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Visit is what a page was like when it was last taken in full, kept so that
// the next visit can ask for changes only.
type Visit struct {
	Digest       string    // payload digest of the full copy: "sha256:" and base32
	Full         time.Time // date of the full copy's record, to which revisits refer
	ETag         string
	LastModified string
	Gone         bool // the page is no more: what was known of it is forgotten
}

// mark is one line of the journal.
type mark struct {
	consumed int64  // bytes of the log that are done with
	logged   int64  // bytes of the log when the line was written
	seen     int64  // bytes of the seen file then
	seenSum  uint32 // CRC-32 of those
	segment  string
	end      int64 // bytes of that segment then
	key      uint64
	visit    Visit // Full is zero where the page was not collected
}

func (m mark) line() string {
	body := fmt.Sprintf("%d %d %d %08x %s %d %016x %s",
		m.consumed, m.logged, m.seen, m.seenSum, strconv.Quote(m.segment), m.end, m.key, m.visit.fields())
	return checked(body) + "\n"
}

// gone stands for the date of a page that is no more.
const gone = -1

func (v Visit) fields() string {
	at := int64(0)
	switch {
	case v.Gone:
		at = gone
	case !v.Full.IsZero():
		at = v.Full.UnixNano()
	}
	return fmt.Sprintf("%d %s %s %s", at, strconv.Quote(v.Digest), strconv.Quote(v.ETag), strconv.Quote(v.LastModified))
}

// parseVisit reads what fields gave, and ignores what follows it.
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
	return v, nil
}

func parseMark(line string) (mark, bool) {
	body, ok := check(line)
	if !ok {
		return mark{}, false
	}
	var m mark
	rest := body
	for _, p := range []*int64{&m.consumed, &m.logged, &m.seen} {
		var number string
		number, rest, _ = strings.Cut(rest, " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return mark{}, false
		}
		*p = n
	}
	sum, rest, _ := strings.Cut(rest, " ")
	seenSum, err := strconv.ParseUint(sum, 16, 32)
	if err != nil {
		return mark{}, false
	}
	m.seenSum = uint32(seenSum)
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return mark{}, false
	}
	m.segment, _ = strconv.Unquote(quoted)
	f := strings.SplitN(strings.TrimPrefix(rest[len(quoted):], " "), " ", 3)
	if len(f) != 3 {
		return mark{}, false
	}
	if m.end, err = strconv.ParseInt(f[0], 10, 64); err != nil {
		return mark{}, false
	}
	if m.key, err = strconv.ParseUint(f[1], 16, 64); err != nil {
		return mark{}, false
	}
	m.visit, err = parseVisit(f[2])
	return m, err == nil
}

// readJournal returns the journal's lines, and for each the offset at which it ends. A
// line that is damaged is passed over: the next one says how far things are without it.
func readJournal(path string) (marks []mark, ends []int64, err error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for at := int64(0); ; {
		line, _, whole := bytes.Cut(data[at:], []byte("\n"))
		if !whole {
			return marks, ends, nil
		}
		at += int64(len(line)) + 1
		if m, ok := parseMark(string(line)); ok {
			marks, ends = append(marks, m), append(ends, at)
		}
	}
}
