package urlindex

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"sheaf/internal/testkit"
)

// A parsed row that is written and parsed again is the same row.
func FuzzRow(f *testing.F) {
	for i := range 3 {
		f.Add(bytes.TrimSuffix(appendRow(nil, madeUp(i, 1+i)), []byte("\n")))
	}
	f.Add([]byte(`jp,a)/ 20261121000000 {"url":"http://a.jp/\u0022","mime":"warc/revisit","refers":"2026-11-20T00:00:00.5Z","status":"304"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.ContainsAny(line, "\n") {
			return // a block is split into lines before
		}
		r, err := parseRow(line)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%v is not ErrCorrupt", err)
			}
			return
		}
		again, err := parseRow(appendRow(nil, r))
		if err != nil {
			t.Fatalf("%q, written again: %v", line, err)
		}
		if !again.Time.Equal(r.Time) || !again.RefersDate.Equal(r.RefersDate) {
			t.Errorf("times %v %v, want %v %v", again.Time, again.RefersDate, r.Time, r.RefersDate)
		}
		again.Time, again.RefersDate = r.Time, r.RefersDate
		if *again != *r {
			t.Errorf("%+v, want %+v", again, r)
		}
		if seq, err := seqOf(line); err != nil || seq != r.Seq {
			t.Errorf("sequence number %d of %q, %v, want %d", seq, line, err, r.Seq)
		}
	})
}

// If scanRow reads a row, encoding/json reads the same.
func FuzzScanRow(f *testing.F) {
	for i := range 3 {
		_, text, _ := strings.Cut(string(appendRow(nil, madeUp(i, 1+i))), "{")
		f.Add("{" + strings.TrimSuffix(text, "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		j, ok := scanRow(text)
		if !ok {
			return
		}
		var want rowLine
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if *j.Cell != *want.Cell {
			t.Errorf("%q: cell %v, want %v", text, *j.Cell, *want.Cell)
		}
		if j.Cell, want.Cell = nil, nil; j != want {
			t.Errorf("%q: %+v, want %+v", text, j, want)
		}
	})
}

// Any bytes as states, blocks or lists of blocks and pages are refused, or are within the limits.
func FuzzLists(f *testing.F) {
	var cdx, idx bytes.Buffer
	w, err := newRunWriter(&cdx, &idx, 2)
	testkit.Must(f, err)
	for p := range 300 {
		testkit.Must(f, w.add(bytes.TrimSuffix(appendRow(nil, madeUp(1000*p, 1)), []byte("\n"))))
		if p%100 == 0 {
			break
		}
	}
	ref, pages, err := w.finish()
	testkit.Must(f, err)
	ref.Name = runPrefix + "x"
	s, err := json.Marshal(state{Format: stateFormat, N: 1, Runs: []runRef{ref}})
	testkit.Must(f, err)
	f.Add(pages, idx.Bytes(), s, cdx.Bytes())
	f.Fuzz(func(t *testing.T, pages, idx, record, member []byte) {
		if s, err := parseState(record, 1); err == nil && (s.N != 1 || s.Through < 0) {
			t.Errorf("state %+v", s)
		}
		ref := ref
		ref.Pages.Size, ref.Idx.Size = int64(len(pages)), int64(len(idx))
		if list, err := parsePages(string(pages), &ref); err == nil {
			for _, p := range list {
				if p.offset+p.length > int64(len(idx)) {
					continue
				}
				blocks, err := parseBlocks(idx[p.offset:p.offset+p.length], p, &ref)
				for _, b := range blocks {
					if err == nil && (b.offset < 0 || b.offset+b.length > ref.Cdx.Size) {
						t.Errorf("block %+v of %d bytes", b, ref.Cdx.Size)
					}
				}
			}
		}
		var z bytes.Buffer
		zw := gzip.NewWriter(&z)
		_, err := zw.Write(member)
		testkit.Must(t, errors.Join(err, zw.Close()))
		for _, m := range [][]byte{member, z.Bytes()} {
			first, _, _ := strings.Cut(string(member), "\n")
			if checkLine([]byte(first)) == nil {
				first = string(head([]byte(first)))
			}
			if l, err := parseRows(m, first); err == nil {
				for i := range l.Len() {
					testkit.Must(t, checkLine(l.Row(i)))
				}
			}
		}
	})
}
