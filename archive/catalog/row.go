package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/sortedrun"
)

// The tables. A run holds rows: lines of text "<table> <key> <JSON object>". Rows are ordered as
// bytes, so they are sorted by table, then by key. A key's parts consist of bytes from ',' to 'z'.
// These sort above the space that ends a part and below the brace that begins the value.
const (
	tableBatch       = "b " // + batch ID
	tableHost        = "h " // + host key, space, sequence number
	tableSummary     = "i " // + host key, space, sequence number of the last entry
	tableEdition     = "p " // + edition name ("published")
	tableRestriction = "r " // + sequence number
	tableTombstone   = "t " // + host key, space, sequence number
	tableExpired     = "x " // + host key, space, the entry's sequence number
)

// maxRow limits the length of a row, in bytes.
const maxRow = 1 << 20

// batchRow holds a batch, its size and the version that published it.
type batchRow struct {
	Batch
	Version
	Segments int64 `json:"segments"`
	Records  int64 `json:"records"`
	Bytes    int64 `json:"bytes"`
}

// seqDigits is the length of seqKey's result. The first digit is always 0.
const seqDigits = 20

// seqKey returns a number as text that sorts like the number.
func seqKey(seq int64) string { return fmt.Sprintf("%0*d", seqDigits, seq) }

// appendRow appends one row with its newline.
func appendRow(dst []byte, key string, value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if len(key)+len(data) >= maxRow {
		return nil, fmt.Errorf("row %s: %d bytes, at most %d allowed", key, len(key)+len(data), maxRow)
	}
	dst = append(dst, key...)
	dst = append(dst, ' ')
	dst = append(dst, data...)
	return append(dst, '\n'), nil
}

// rowKey returns a row's text before its value: the table and the key.
func rowKey(row []byte) []byte {
	key, _, _ := bytes.Cut(row, []byte(" {"))
	return key
}

// rowValue decodes a row's value into v, or returns ErrCorrupt.
func rowValue(row []byte, v any) error {
	key := rowKey(row)
	if len(key) == len(row) {
		return fmt.Errorf("row %.80q has no value: %w", row, ErrCorrupt)
	}
	if err := json.Unmarshal(row[len(key)+1:], v); err != nil {
		return fmt.Errorf("row %q: %w: %w", key, err, ErrCorrupt)
	}
	return nil
}

// valuesOf decodes the values of rows. It ends with the first error.
func valuesOf[T any](rows iter.Seq2[[]byte, error]) iter.Seq2[T, error] {
	return decoded(rows, func(row []byte) (v T, err error) { return v, rowValue(row, &v) })
}

// decoded decodes rows. It ends with the first error.
func decoded[T any](rows iter.Seq2[[]byte, error], decode func(row []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row, err := range rows {
			var v T
			if err == nil {
				v, err = decode(row)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// hostOfRow returns the host key in the key of an entry's, a summary's or a tombstone's row.
func hostOfRow(row []byte) string {
	key := rowKey(row)[len(tableHost):]
	host, _, _ := bytes.Cut(key, []byte(" "))
	return string(host)
}

// entryOfRow decodes a row of the table of entries and checks it against its key.
func entryOfRow(row []byte) (SegmentEntry, error) {
	l, ok := scanEntry(string(row[min(len(rowKey(row))+1, len(row)):]))
	if !ok {
		l = SegmentEntry{}
		if err := rowValue(row, &l); err != nil {
			return l, err
		}
	}
	if want := tableHost + l.SURT + " " + seqKey(l.Seq); string(rowKey(row)) != want {
		return l, fmt.Errorf("row %q holds the entry %q: %w", rowKey(row), want, ErrCorrupt)
	}
	return l, nil
}

// checkKeyText returns an error if a text cannot be part of a row's key.
func checkKeyText(what, s string) error {
	if s == "" {
		return fmt.Errorf("%s is empty", what)
	}
	for i := range len(s) {
		if s[i] < ',' || s[i] > 'z' {
			return fmt.Errorf("%s %q: byte %s cannot stand in a key", what, s, strconv.QuoteRune(rune(s[i])))
		}
	}
	return nil
}

// seqOfRow returns the sequence number in the key of an entry, summary or tombstone.
func seqOfRow(row []byte) (int64, error) {
	key := rowKey(row)
	digits := key[bytes.LastIndexByte(key, ' ')+1:]
	seq, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || len(digits) != seqDigits || digits[0] != '0' {
		return 0, fmt.Errorf("row %q has no sequence number: %w", key, ErrCorrupt)
	}
	return seq, nil
}

// scanEntry parses the JSON of an entry exactly as a draft writes it. It is much faster than
// encoding/json, which took most of a host's look-up time. For any other text, valid or not, ok is
// false: the caller then uses encoding/json. The strings share memory with the text.
func scanEntry(text string) (e SegmentEntry, ok bool) {
	s := sortedrun.LineScanner{Rest: strings.TrimSuffix(text, "\n")}
	ok = s.Text(`{"edition":`, &e.Edition) && s.Number(`,"seq":`, &e.Seq) && scanTime(&s, `,"published":`, &e.Published) &&
		s.Text(`,"host":`, &e.Host) && s.Text(`,"surt":`, &e.SURT) && s.Text(`,"object":`, &e.Object) &&
		s.Number(`,"offset":`, &e.Offset) && s.Number(`,"length":`, &e.Length) &&
		s.Number(`,"index_offset":`, &e.IndexOffset) && s.Number(`,"index_length":`, &e.IndexLength) &&
		scanTime(&s, `,"first":`, &e.First) && scanTime(&s, `,"last":`, &e.Last) &&
		s.Number(`,"records":`, &e.Records) && s.Number(`,"revisits":`, &e.Revisits) && s.Number(`,"files":`, &e.Files)
	if !ok {
		return e, false
	}
	s.Text(`,"preferences":`, &e.Preferences) // a missing field is skipped
	ok = s.Text(`,"sha256":`, &e.SHA256) && (!s.Skip(`,"views":`) || scanViews(&s, &e)) &&
		s.Text(`,"batch":`, &e.Batch) && s.Text(`,"batch_sha256":`, &e.BatchSHA256) && s.Text(`,"robot":`, &e.Robot)
	s.Text(`,"collection":`, &e.Collection)
	return e, ok && s.Rest == "}"
}

// scanTime removes a prefix and the time after it, and stores the time.
func scanTime(s *sortedrun.LineScanner, prefix string, to *time.Time) bool {
	var text string
	return s.Text(prefix, &text) && to.UnmarshalText([]byte(text)) == nil
}

// scanViews removes the JSON object of views that comes next, and stores the views.
func scanViews(s *sortedrun.LineScanner, e *SegmentEntry) bool {
	e.Views = make(map[string]View)
	for before := "{"; before == "{" || !s.Skip("}"); before = "," {
		var kind string
		var v View
		if !s.Text(before, &kind) || !s.Number(`:{"size":`, &v.Size) || !s.Text(`,"sha256":`, &v.SHA256) || !s.Text(`,"etag":`, &v.ETag) {
			return false
		}
		s.Number(`,"offset":`, &v.Offset)
		if !s.Skip("}") {
			return false
		}
		e.Views[kind] = v
	}
	return true
}
