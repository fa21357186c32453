package archive

import (
	"bytes"
	"encoding/binary"
	"io"
)

// member is the head of a gzip member.
type member struct {
	start, length int64
	ws, wp, wi    []byte
	wpOff         int64
	fields        int // number of extra fields, without WL
}

// commonPrefix returns the length of the longest common beginning of a and b, in bytes.
func commonPrefix[T string | []byte](a, b T) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// firstDifference returns the offset of the first byte in which a and b differ.
func firstDifference(a, b []byte) int64 { return int64(commonPrefix(a, b)) }

// blocksStart returns the offset of the member's blocks.
func (m *member) blocksStart() int64 {
	n := m.start + memberHead
	for _, f := range [][]byte{m.ws, m.wp, m.wi} {
		if f != nil {
			n += fieldHead + int64(len(f))
		}
	}
	return n
}

// member reads the head of a member, including its extra fields.
func (w *walker) member(what string) (*member, error) {
	m := &member{start: w.off}
	var head [gzipHeader + 2]byte
	if err := w.full(head[:], what); err != nil {
		return nil, err
	}
	if string(head[:gzipHeader]) != gzipStart {
		return nil, w.fail(corrupt("%s begins with % x, want % x", what, head[:gzipHeader], gzipStart), m.start+firstDifference(head[:], []byte(gzipStart)))
	}
	xlen := int(binary.LittleEndian.Uint16(head[gzipHeader:]))
	if xlen > maxXLEN || xlen < fieldHead+8 {
		return nil, w.fail(corrupt("XLEN is %d, want %d to %d", xlen, fieldHead+8, maxXLEN), m.start+gzipHeader)
	}
	extra := make([]byte, xlen)
	if err := w.full(extra, what+"'s extra fields"); err != nil {
		return nil, err
	}
	if string(extra[:4]) != "WL\x08\x00" {
		return nil, w.fail(corrupt("the extra fields do not begin with WL"), m.start+gzipHeader+2)
	}
	length := binary.LittleEndian.Uint64(extra[4:])
	if length > 1<<50 || int64(length) < int64(gzipHeader+2+xlen+2+trailerSize) {
		return nil, w.fail(corrupt("WL says %d bytes, which its own head of %d does not fit", length, gzipHeader+2+xlen), m.start+gzipHeader+2+fieldHead)
	}
	m.length = int64(length)
	order := []struct {
		id   string
		data *[]byte
	}{{"WS", &m.ws}, {"WP", &m.wp}, {"WI", &m.wi}}
	for at := fieldHead + 8; at < xlen; {
		off := m.start + gzipHeader + 2 + int64(at)
		if xlen-at < fieldHead {
			return nil, w.fail(corrupt("%d bytes after the last extra field", xlen-at), off)
		}
		id, n := string(extra[at:at+2]), int(binary.LittleEndian.Uint16(extra[at+2:]))
		at += fieldHead
		for len(order) > 0 && order[0].id != id {
			order = order[1:]
		}
		if len(order) == 0 || n > xlen-at {
			return nil, w.fail(corrupt("extra field %q of %d bytes is unknown, out of order or too long", id, n), off)
		}
		*order[0].data = extra[at : at+n : at+n]
		if id == "WP" {
			m.wpOff = off + fieldHead
		}
		order = order[1:]
		m.fields++
		at += n
	}
	return m, nil
}

// end reports whether m is the end member. If so, end reads the rest of m and compares it with the
// result of EndMember.
func (w *walker) end(m *member) (it item, ok bool, err error) {
	it.kind = endItem
	if m.wi != nil {
		if len(m.wi) != 16 {
			return it, false, w.fail(corrupt("WI has %d bytes, want 16", len(m.wi)), m.start+memberHead)
		}
		it.indexOff = int64(binary.LittleEndian.Uint64(m.wi))
		it.indexLen = int64(binary.LittleEndian.Uint64(m.wi[8:]))
		if it.indexLen <= 0 || it.indexOff < 0 || m.fields != 1 {
			return it, false, w.fail(corrupt("WI says %d bytes at %d", it.indexLen, it.indexOff), m.start)
		}
	} else if m.fields != 0 {
		return it, false, nil
	}
	want := EndMember(it.indexOff, it.indexLen)
	if m.wi == nil {
		if rest, err := w.in.Peek(len(want) - memberHead); err == io.EOF && m.length == int64(len(want)) && bytes.HasPrefix(want[memberHead:], rest) {
			return it, false, w.fail(&FormatError{Code: codeTruncated, Msg: "ends within the end member"}, m.start)
		}
		if rest, _ := w.in.Peek(len(want) - memberHead); m.length != int64(len(want)) || !bytes.Equal(rest, want[memberHead:]) {
			return it, false, nil
		}
	}
	rest := make([]byte, len(want)-int(w.off-m.start))
	if err := w.full(rest, "the end member"); err != nil {
		return it, false, err
	}
	if !bytes.Equal(rest, want[len(want)-len(rest):]) || m.length != int64(len(want)) {
		off := m.start + gzipHeader + 2 + fieldHead // WL, unless the rest differs
		if n := firstDifference(rest, want[len(want)-len(rest):]); n < int64(len(rest)) {
			off = w.off - int64(len(rest)) + n
		}
		return it, false, w.fail(corrupt("the end member is not the one that FORMAT.md gives"), off)
	}
	return it, true, nil
}

// parseEndMember parses an end member with WI. ok is false for all other bytes.
func parseEndMember(b []byte) (indexOff, indexLen int64, ok bool) {
	at := memberHead + fieldHead
	if len(b) != endMemberSize || string(b[memberHead:at]) != "WI\x10\x00" {
		return 0, 0, false
	}
	off, n := int64(binary.LittleEndian.Uint64(b[at:])), int64(binary.LittleEndian.Uint64(b[at+8:]))
	return off, n, off >= 0 && n > 0 && bytes.Equal(b, EndMember(off, n))
}
