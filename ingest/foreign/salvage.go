package foreign

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"

	"sheaf/internal/display"
	"sheaf/internal/wire"
)

// maxLosses is how many losses a Result lists. Further losses are only counted.
const maxLosses = 100

// Loss is a place of a file that a conversion could not use. In a strict conversion Offset is 0,
// and Within is the record's offset in the inflated file. In a WACZ the place is in the entry that
// Detail names.
type Loss struct {
	Offset int64       `json:"offset"`           // in a lenient conversion: offset in the file of the place, or of its member if the file is compressed
	Within int64       `json:"within,omitempty"` // inflated bytes from Offset to the record
	URL    string      `json:"url,omitempty"`    // of the record, if it could be read
	Reason wire.Reason `json:"reason"`
	Detail string      `json:"detail"`
}

func (l Loss) String() string {
	where := fmt.Sprintf("offset %d", l.Offset)
	if l.Within > 0 {
		where += fmt.Sprintf(", %d inflated", l.Within)
	}
	if l.URL != "" {
		where += fmt.Sprintf(" (%s)", display.Harmless(fmt.Sprintf("%.200s", l.URL)))
	}
	return fmt.Sprintf("%s: %s: %s", where, l.Reason, l.Detail)
}

// Losses counts the places of a file that could not be used, and lists the first places.
type Losses struct {
	Lost   int64  `json:"lost,omitempty"`   // damaged places, each with one or more records
	Losses []Loss `json:"losses,omitempty"` // the first hundred
}

func (l *Losses) add(loss Loss) {
	if l.Lost++; len(l.Losses) < maxLosses {
		l.Losses = append(l.Losses, loss)
	}
}

// within adds the entry of a WACZ to the details of the losses from number first on.
func (l *Losses) within(entry string, first int) {
	for n := range l.Losses[first:] {
		loss := &l.Losses[first+n]
		loss.Detail = fmt.Sprintf("%.200q: %s", entry, loss.Detail)
	}
}

// salvaging is the lenient conversion of a WARC or an ARC: it leaves out and lists damaged places.
//
// No record of a damaged gzip member or Zstandard frame is used. Where the file is cut off, a
// record is used if its digest is right. A record with a wrong digest is lost. A record without a
// digest is lost if the bytes after it show that its length is wrong.
type salvaging struct {
	*conversion
	in  *input
	gap int64 // offset of the last gap that was listed; -1: none
}

// errWrongEnd says that a record's block does not end where its header says.
var errWrongEnd = errors.New("what follows its end is no record: its Content-Length is wrong, or what follows is damaged")

// noRecord returns the error of a file without a single readable record.
func noRecord() error {
	return wrong(0, "", wire.ReasonForeign, "no record of a WARC or an ARC in it can be read")
}

// salvage converts the records of a file leniently. It tries the kinds in their order until a
// record of one can be read, because the file's beginning may be damaged. It returns the kind of
// that record.
func (c *conversion) salvage(in *input, kinds ...Kind) (Kind, error) {
	start, before, losses := spot{}, c.meter.entries, c.result.Losses
	for n, kind := range kinds {
		if n > 0 {
			in.back(start)
			c.result.Losses = losses
		}
		in.parts.layout = layoutOf(kind)
		s := &salvaging{c, in, -1}
		err := s.next()
		for err == nil {
			err = s.next()
		}
		if err == io.EOF && c.meter.entries > before {
			err = c.answer(in)
		} else if err == io.EOF {
			continue
		}
		return kind, err
	}
	return "", noRecord()
}

// next converts the next record. If that record is lost, it skips to the beginning of another
// record.
func (s *salvaging) next() error {
	_, err := s.in.skipEmpty()
	at := s.in.spot()
	if err != nil {
		if err == io.EOF {
			return err
		}
		if err := s.lose(at, "", err); err != nil {
			return err
		}
		return s.resync(true)
	}
	r, err := s.in.parts.layout.next(s.in)
	if err != nil {
		if err := s.lose(at, "", err); err != nil {
			return err
		}
		s.in.back(at)
		return s.resync(false)
	}
	r.spot = at
	body := s.in.spot()
	ends, err := s.record(r)
	if err == nil {
		return nil
	}
	if err := s.lose(at, r.url(), err); err != nil || ends {
		return err
	}
	s.in.back(body)
	return s.resync(true)
}

// record converts a record if it is right. After an error, ends reports whether reading can go on
// here.
func (s *salvaging) record(r *warcRecord) (ends bool, err error) {
	if err := s.read(s.in, r); err != nil {
		return false, err
	}
	wrongDigest := r.check()
	cut := s.in.parts.pack != nil && s.in.spotOf(s.in.n-1).at == s.in.parts.cut
	ends, err = s.in.ends()
	if err != nil {
		return false, err
	}
	_, _, proof := algorithm(r.get("WARC-Block-Digest"))
	switch {
	case wrongDigest != nil:
		return ends, wrongDigest
	case proof == nil && cut:
		return true, wrong(r.at, r.url(), wire.ReasonTruncated, "the file ends in its %s, and it has no WARC-Block-Digest", s.in.parts.pack.member)
	case proof == nil && !ends:
		return false, wrong(r.at, r.url(), wire.ReasonCorruptMember, "%v", errWrongEnd)
	}
	if err := s.take(s.in, r); err != nil {
		return false, fatal{err}
	}
	return true, nil
}

// fatal is an error that ends the conversion.
type fatal struct{ error }

// lose lists err as a loss, or returns it if a lenient conversion must not leave it out.
func (s *salvaging) lose(at spot, url string, err error) error {
	var f fatal
	var hole *gap
	var fault *Error
	if errors.As(err, &f) {
		return f.error
	}
	switch err = s.in.reading(err, url); {
	case s.in.disk != nil:
		return s.in.disk
	case errors.As(err, &hole):
		if s.gap == hole.at {
			return nil
		}
		s.gap = hole.at
		if url == "" {
			at = spot{at: hole.at}
		}
		reason := wire.ReasonCorruptMember
		if hole.cut {
			reason = wire.ReasonTruncated
		}
		fault = wrong(0, url, reason, "%s", hole.why)
	case !errors.As(err, &fault) || fault.Reason == wire.ReasonBombRatio:
		return err
	}
	s.result.Losses.add(Loss{at.at, at.within, url, fault.Reason, fault.Msg})
	return nil
}

// resync skips to the next line that begins a record, across gaps too. atLine says that a line
// begins here.
func (s *salvaging) resync(atLine bool) error {
	for {
		err := s.in.resync(atLine)
		var hole *gap
		if !errors.As(err, &hole) {
			return err
		}
		if err := s.lose(spot{at: hole.at}, "", hole); err != nil {
			return err
		}
		if err := s.in.parts.pass(hole); err != nil {
			return err
		}
		atLine = true
	}
}

// resync skips to the next line that begins a record. atLine says that a line begins here.
func (s *input) resync(atLine bool) error {
	for {
		if atLine {
			head, err := s.r.Peek(s.parts.layout.enough)
			if s.parts.layout.begins(head) {
				return nil
			}
			if err != nil && len(head) == 0 {
				return s.ended(err)
			}
		}
		part, err := s.r.ReadSlice('\n')
		if cerr := s.count(len(part), nil); cerr != nil {
			return cerr
		}
		if err != nil && err != bufio.ErrBufferFull {
			return s.ended(err)
		}
		atLine = err == nil
	}
}

// skipEmpty skips the empty lines between records, and returns how many there were.
func (s *input) skipEmpty() (lines int, err error) {
	for {
		c, err := s.r.Peek(1)
		switch {
		case err != nil:
			return lines, s.ended(err)
		case c[0] == '\n':
			lines++
		case c[0] != '\r':
			return lines, nil
		}
		_, _ = s.r.Discard(1) // cannot fail: Peek has buffered the byte
		if err := s.count(1, nil); err != nil {
			return lines, err
		}
	}
}

// ends reports whether a record ends here: empty lines follow and then another record or the end of
// the file, or a damaged member follows.
func (s *input) ends() (bool, error) {
	var hole *gap
	lines, err := s.skipEmpty()
	switch {
	case errors.As(err, &hole):
		return true, nil
	case err == io.EOF:
		return true, nil
	case err != nil:
		return false, err
	}
	const enough = 128
	layout := s.parts.layout
	head, _ := s.r.Peek(max(enough, layout.enough)) // the next read returns the error again
	return layout.begins(head) || lines >= layout.empty && layout.damaged(head), s.disk
}

// layout describes how records begin, to find them in a damaged file.
type layout struct {
	begins  func(b []byte) bool // reports whether a record begins with b
	damaged func(b []byte) bool // reports whether b looks like a record with a damaged first line
	enough  int                 // number of bytes that begins needs
	empty   int                 // number of line ends before a record
	next    func(*input) (*warcRecord, error)
}

func layoutOf(kind Kind) layout {
	if kind == ARC {
		const longest = 4 << 10 // bytes of a line with a usual URL
		return layout{beginsARC, damagedARC, longest, 1, (*input).nextARC}
	}
	return layout{beginsRecord, beginsHeader, len("WARC/0.17") + 1, 2, (*input).nextRecord}
}

// beginsRecord reports whether b begins with the first line of a WARC record.
func beginsRecord(b []byte) bool {
	for _, version := range warcVersions {
		if rest, ok := bytes.CutPrefix(b, []byte(version)); ok && (len(rest) == 0 || rest[0] == '\r' || rest[0] == '\n') {
			return true
		}
	}
	return false
}

// beginsHeader reports whether b looks like a WARC record with a damaged first line.
func beginsHeader(b []byte) bool {
	_, second, ok := bytes.Cut(b, []byte("\n"))
	return ok && (bytes.HasPrefix(second, []byte("WARC-")) || bytes.HasPrefix(second, []byte("Content-")))
}

// beginsARC reports whether b begins with the first line of an ARC record.
func beginsARC(b []byte) bool {
	line, _, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return false
	}
	_, ok = parseARC(string(bytes.TrimRight(line, "\r")))
	return ok
}

// damagedARC reports whether b looks like an ARC record with one damaged field.
func damagedARC(b []byte) bool {
	line, _, ok := bytes.Cut(b, []byte("\n"))
	fields := bytes.Split(bytes.TrimRight(line, "\r"), []byte(" "))
	const least = 4 // one fewer than usual, because a space may be damaged
	if !ok || len(fields) < least {
		return false
	}
	right := 0 // how many of IP address, date and length are right
	for _, f := range fields[1:] {
		_, err := netip.ParseAddr(string(f))
		if err == nil || arcDate(string(f)) {
			right++
		}
	}
	if _, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 63); err == nil {
		right++
	}
	return right >= 2
}
