package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
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

// seqKey returns a number as text that sorts like the number.
func seqKey(seq int64) string { return fmt.Sprintf("%020d", seq) }

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
	seq, err := strconv.ParseInt(string(key[bytes.LastIndexByte(key, ' ')+1:]), 10, 64)
	if err != nil || !strings.HasSuffix(string(key), " "+seqKey(seq)) {
		return 0, fmt.Errorf("row %q has no sequence number: %w", key, ErrCorrupt)
	}
	return seq, nil
}
