package archive

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"sheaf/internal/media"
	"sheaf/internal/testkit"
)

// storedField is a field of a member as it is stored.
type storedField struct {
	name   string
	off, n int64
	member span
}

// storedFields names every byte of a segment's members besides those that blocks encode data in: of
// runs there are the first byte and the last four, the sync flush.
func storedFields(data []byte, x *Index) (out []storedField) {
	var in span
	var at int64
	var where string
	field := func(name string, n int64) {
		out = append(out, storedField{where + name, at, n, in})
		at += n
	}
	head := func() {
		for _, f := range []struct {
			name string
			n    int64
		}{{"ID1", 1}, {"ID2", 1}, {"CM", 1}, {"FLG", 1}, {"MTIME", 4}, {"XFL", 1}, {"OS", 1}, {"XLEN", 2}, {"WL's name", 2}, {"WL's length", 2}, {"WL", 8}} {
			field(f.name, f.n)
		}
	}
	run := func(name string, n int64) {
		if n > 0 {
			field(name+"'s first block header", 1)
			at += n - 5
			field(name+"'s sync flush", 4)
		}
	}
	trailer := func(final int64) {
		field("final block", final)
		field("CRC32", 4)
		field("ISIZE", 4)
	}
	cells := append(append([]Cell{}, x.Cells...), x.self)
	for i, c := range cells {
		where, at, in = fmt.Sprintf("cell %d T ", i), c.Offset, span{c.Offset, c.TLen}
		head()
		run("run", c.headerBlocks().n)
		trailer(2)
		where, in = fmt.Sprintf("cell %d B ", i), span{at, c.BLen}
		head()
		if c.HeadLen > 0 {
			for _, f := range []struct {
				name string
				n    int64
			}{{"WS's name", 2}, {"WS's length", 2}, {"WS's block header", 1}, {"WS's LEN", 2}, {"WS's NLEN", 2}, {"WS's CRLFCRLF", 4}, {"CRC32 of the record", 4}, {"ISIZE of the record", 4},
				{"WP's name", 2}, {"WP's length", 2}, {"WP's ID", 2}, {"WP's CM", 1}, {"WP's FLG", 1}, {"WP's MTIME", 4}, {"WP's XFL", 1}, {"WP's OS", 1}} {
				field(f.name, f.n)
			}
			run("WP's run", c.HeadLen-gzipHeader)
		}
		if media.IsCompressed(c.MIME) {
			field("body's stored block header", 1)
			field("body's LEN", 2)
			field("body's NLEN", 2)
			at += c.bodyBlocks().n - 5
		} else {
			run("body", c.bodyBlocks().n)
		}
		trailer(int64(len(padBlock(c.BodyLen))))
	}
	where, in = "end ", span{at, endMemberSize}
	head()
	for _, name := range []string{"WI's name", "WI's length"} {
		field(name, 2)
	}
	field("WI's offset", 8)
	field("WI's length of the index", 8)
	trailer(10)
	return out
}

// TestEveryStoredField changes every byte of every field of every member, in three ways each: the
// verifier must fail, and the offset that it names must lie in that member.
func TestEveryStoredField(t *testing.T) {
	testkit.Slow(t)
	f := newForge(t)
	data, _ := f.build()
	x, err := ReadIndex(t.Context(), sourceOf(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	fields := storedFields(data, x)
	mutants, exact := 0, 0
	for _, field := range fields {
		for i := field.off; i < field.off+field.n; i++ {
			for _, flip := range []byte{0x01, 0x80, 0xff} {
				bad := bytes.Clone(data)
				bad[i] ^= flip
				_, err := VerifySegment(bytes.NewReader(bad), VerifyOptions{Host: testHost})
				var ferr *FormatError
				switch {
				case !errors.As(err, &ferr):
					t.Errorf("%s, byte %d with %#02x: verified with %v", field.name, i-field.off, flip, err)
				case ferr.Offset < field.member.off || ferr.Offset >= field.member.end():
					t.Errorf("%s, byte %d with %#02x: not in the member from %d to %d: %v", field.name, i-field.off, flip, field.member.off, field.member.end(), err)
				case ferr.Offset >= field.off && ferr.Offset < field.off+field.n:
					exact++
				}
				mutants++
			}
		}
	}
	if last := fields[len(fields)-1]; last.off+last.n != int64(len(data)) {
		t.Errorf("the fields end at %d of %d", last.off+last.n, len(data))
	}
	t.Logf("%d fields, %d mutants; %d times the very field is named", len(fields), mutants, exact)
}
