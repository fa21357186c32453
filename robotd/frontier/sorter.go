package frontier

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"sheaf/archive/sortedrun"
)

// sortMemory is how many bytes of visits are sorted in memory.
const sortMemory = 1 << 20

// sorter sorts visits by their keys, in files if there are many. Of several visits to a page it
// keeps the last.
type sorter struct {
	host string
	rows *sortedrun.Sorter // lines as in the state, each behind its key and its number
	n    uint64
	row  []byte
}

// newSorter returns a sorter that holds limit bytes in memory, and has its file in dir.
func newSorter(dir, host string, limit int) *sorter {
	return &sorter{host: host, rows: sortedrun.NewSorter(dir, limit, bytes.Compare)}
}

func (s *sorter) add(k known) error {
	s.n++
	head := binary.BigEndian.AppendUint64(make([]byte, 0, keyDigits), k.key)
	head = binary.BigEndian.AppendUint64(head, math.MaxUint64-s.n) // the last visit comes first
	s.row = k.append(hex.AppendEncode(s.row[:0], head), s.host)
	return s.rows.Add(s.row)
}

func (s *sorter) empty() bool { return s.n == 0 }

func (s *sorter) close() error { return s.rows.Close() }

// source returns the visits that were added.
func (s *sorter) source() (*sorted, error) {
	rows, err := s.rows.Rows(context.Background())
	return &sorted{host: s.host, rows: rows}, err
}

// sorted has the visits of a sorter, in the order of their keys.
type sorted struct {
	host string
	rows *sortedrun.Merged
	last []byte // key of the page that next has returned
}

const (
	keyDigits = 16
	rowDigits = 2 * keyDigits
)

func (s *sorted) next() (known, bool, error) {
	for row := s.rows.Row(); row != nil; row = s.rows.Row() {
		k, ok := known{}, !bytes.Equal(row[:keyDigits], s.last)
		if ok {
			s.last = append(s.last[:0], row[:keyDigits]...)
			var read bool
			if k, read = parseKnown(row[rowDigits:], s.host); !read {
				return k, false, fmt.Errorf("line %.200q of the sorted visits differs from what was written", row)
			}
		}
		if err := s.rows.Next(context.Background()); err != nil || ok {
			return k, err == nil, err
		}
	}
	return known{}, false, nil
}
