package frontier

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
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

// source returns sorted keys one after another.
type source interface {
	next() (key uint64, ok bool, err error)
}

type sliceSource struct{ keys []uint64 }

func (s *sliceSource) next() (uint64, bool, error) {
	if len(s.keys) == 0 {
		return 0, false, nil
	}
	key := s.keys[0]
	s.keys = s.keys[1:]
	return key, true, nil
}

type fileSource struct{ r *bufio.Reader }

func (s *fileSource) next() (uint64, bool, error) {
	data, err := s.r.Peek(keyBytes)
	if err == io.EOF {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	key := binary.BigEndian.Uint64(data)
	_, err = s.r.Discard(keyBytes)
	return key, true, err
}

// writeRun merges sources with at most total keys into a run in dir.
func writeRun(dir string, total int64, sources []source) (r *run, err error) {
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
	err = merge(sources, func(key uint64) error {
		if r.keys%blockKeys == 0 {
			r.firsts = append(r.firsts, key)
		}
		r.keys++
		r.filter.add(key)
		var bytes [keyBytes]byte
		binary.BigEndian.PutUint64(bytes[:], key)
		_, err := w.Write(bytes[:])
		return err
	})
	if err == nil {
		err = w.Flush()
	}
	return r, err
}

// merge calls put with the keys of all sources in order, each once.
func merge(sources []source, put func(uint64) error) error {
	heads := make([]uint64, 0, len(sources))
	live := make([]source, 0, len(sources))
	for _, s := range sources {
		key, ok, err := s.next()
		if err != nil {
			return err
		}
		if ok {
			heads, live = append(heads, key), append(live, s)
		}
	}
	last, first := uint64(0), true
	for len(live) > 0 {
		least := 0
		for i := range heads {
			if heads[i] < heads[least] {
				least = i
			}
		}
		if key := heads[least]; first || key != last {
			if err := put(key); err != nil {
				return err
			}
			last, first = key, false
		}
		key, ok, err := live[least].next()
		if err != nil {
			return err
		}
		if ok {
			heads[least] = key
		} else {
			heads, live = slices.Delete(heads, least, least+1), slices.Delete(live, least, least+1)
		}
	}
	return nil
}
