package foreign

import (
	"bytes"
	"net/netip"
	"strconv"
)

// layout says how records begin, for looking for them in a damaged file.
type layout struct {
	begins  func(b []byte) bool // whether a record begins with b
	damaged func(b []byte) bool // whether b is like the beginning of a record whose first line is damaged
	enough  int                 // bytes that begins needs
	empty   int                 // lines that end before a record begins
	next    func(*input) (*warcRecord, error)
}

func layoutOf(kind Kind) layout {
	if kind == ARC {
		const longest = 4 << 10 // of a line with a usual URL
		return layout{beginsARC, damagedARC, longest, 1, (*input).nextARC}
	}
	return layout{beginsRecord, beginsHeader, len("WARC/0.17") + 1, 2, (*input).nextRecord}
}

// beginsRecord reports whether a record of a WARC begins with b.
func beginsRecord(b []byte) bool {
	for _, version := range warcVersions {
		if rest, ok := bytes.CutPrefix(b, []byte(version)); ok && (len(rest) == 0 || rest[0] == '\r' || rest[0] == '\n') {
			return true
		}
	}
	return false
}

// beginsHeader reports whether b is like the beginning of a WARC's record whose first line is
// damaged.
func beginsHeader(b []byte) bool {
	_, second, ok := bytes.Cut(b, []byte("\n"))
	return ok && (bytes.HasPrefix(second, []byte("WARC-")) || bytes.HasPrefix(second, []byte("Content-")))
}

// beginsARC reports whether a record of an ARC begins with b.
func beginsARC(b []byte) bool {
	line, _, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return false
	}
	_, ok = parseARC(string(bytes.TrimRight(line, "\r")))
	return ok
}

// damagedARC reports whether b is like the beginning of an ARC's record with one field damaged.
func damagedARC(b []byte) bool {
	line, _, ok := bytes.Cut(b, []byte("\n"))
	fields := bytes.Split(bytes.TrimRight(line, "\r"), []byte(" "))
	const least = 4 // a space may be what is damaged
	if !ok || len(fields) < least {
		return false
	}
	right := 0 // of IP address, date and length
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
