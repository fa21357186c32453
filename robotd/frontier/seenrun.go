package frontier

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sort"

	"sheaf/internal/files"
)

const (
	keyBytes  = 8
	blockKeys = 512 // 4 KiB, a page of the page cache
)

// run is an unnamed file of sorted keys.
type run struct {
	file   *os.File
	keys   int64
	firsts []uint64 // first key of each block
	filter filter
}

// has looks a key up in the file. block is a buffer for one block.
func (r *run) has(key uint64, block []byte) (bool, error) {
	at := sort.Search(len(r.firsts), func(i int) bool { return r.firsts[i] > key }) - 1
	if at < 0 {
		return false, nil
	}
	off := int64(at) * blockKeys
	n := min(blockKeys, r.keys-off)
	block = block[:n*keyBytes]
	if _, err := r.file.ReadAt(block, off*keyBytes); err != nil {
		return false, err
	}
	i := sort.Search(int(n), func(i int) bool { return binary.BigEndian.Uint64(block[i*keyBytes:]) >= key })
	return i < int(n) && binary.BigEndian.Uint64(block[i*keyBytes:]) == key, nil
}

// writeRun merges sources of sorted keys, with at most total keys, into a run in dir.
func writeRun(dir string, total int64, sources []*bufio.Reader) (r *run, err error) {
	f, err := files.Nameless(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	r = &run{
		file:   f,
		firsts: make([]uint64, 0, total/blockKeys+1),
		filter: newFilter(total),
	}
	w := bufio.NewWriterSize(f, 64<<10)
	last := uint64(0)
	for {
		key, from, err := least(sources)
		if err != nil {
			return nil, err
		}
		if from == nil {
			return r, w.Flush()
		}
		_, _ = from.Discard(keyBytes) // which lie in its buffer
		if r.keys > 0 && key == last {
			continue
		}
		if r.keys%blockKeys == 0 {
			r.firsts = append(r.firsts, key)
		}
		r.keys++
		r.filter.add(key)
		last = key
		if _, err := w.Write(binary.BigEndian.AppendUint64(w.AvailableBuffer(), key)); err != nil {
			return nil, err
		}
	}
}

// least returns the least of the keys that come next in the sources, and its source; nil: the
// sources have ended.
func least(sources []*bufio.Reader) (key uint64, from *bufio.Reader, err error) {
	for _, s := range sources {
		data, err := s.Peek(keyBytes)
		if err == io.EOF {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		if next := binary.BigEndian.Uint64(data); from == nil || next < key {
			key, from = next, s
		}
	}
	return key, from, nil
}
