package foreign

import (
	"bytes"
	"net/netip"
	"strconv"
)

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
