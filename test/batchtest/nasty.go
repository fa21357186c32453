package batchtest

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// Sizes of a member's fixed parts: the gzip header with XLEN and WL; the final empty block and the
// trailer.
const (
	memberHead = 24
	memberEnd  = 10
)

// Members splits data, which must be whole members, by the lengths in the members' headers.
func Members(data []byte) (members [][]byte) {
	for len(data) > 0 {
		n := binary.LittleEndian.Uint64(data[16:])
		members = append(members, data[:n])
		data = data[n:]
	}
	return members
}

// Member makes a member of data, with correct lengths and sums. more are the extra fields after WL.
func Member(data, more []byte) []byte {
	var blocks bytes.Buffer
	w, _ := flate.NewWriter(&blocks, flate.BestCompression) // the level is valid
	w.Write(data)
	w.Flush()
	b := []byte("\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff")
	b = binary.LittleEndian.AppendUint16(b, uint16(12+len(more)))
	b = append(b, "WL\x08\x00"...)
	b = binary.LittleEndian.AppendUint64(b, uint64(memberHead+len(more)+blocks.Len()+memberEnd))
	b = append(append(append(b, more...), blocks.Bytes()...), 3, 0)
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(data))
	return binary.LittleEndian.AppendUint32(b, uint32(len(data)))
}

// TarHeader makes a tar header block with a correct sum, which includes the edits.
func TarHeader(name string, kind byte, size int, edits ...func(h []byte)) []byte {
	h := make([]byte, 512)
	copy(h, name)
	copy(h[100:], "0000644\x00")
	copy(h[108:], "0000000\x00")
	copy(h[116:], "0000000\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00", size))
	copy(h[136:], fmt.Sprintf("%011o\x00", crawled.Unix()))
	copy(h[148:], "        ")
	h[156] = kind
	copy(h[257:], "ustar\x0000")
	for _, edit := range edits {
		edit(h)
	}
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

// Pax makes an extended header of type 'x' or 'g' from keys and values.
func Pax(kind byte, pairs ...string) []byte {
	var data []byte
	for i := 0; i < len(pairs); i += 2 {
		n := len(pairs[i]) + len(pairs[i+1]) + 4
		for n != len(fmt.Sprintf("%d %s=%s\n", n, pairs[i], pairs[i+1])) {
			n++
		}
		data = fmt.Appendf(data, "%d %s=%s\n", n, pairs[i], pairs[i+1])
	}
	return append(TarHeader("././@PaxHeader", kind, len(data)), Padded(data)...)
}

// Padded fills data up to whole tar blocks.
func Padded(data []byte) []byte { return append(data, make([]byte, -len(data)&511)...) }

// Reframe makes a signed batch of the first hosts of b, with other bytes for each host. The
// manifest has the right digests, whatever the bytes are.
func (r *Robots) Reframe(t testing.TB, b *Batch, ranges ...[]byte) *Batch {
	t.Helper()
	m := *b.Manifest
	m.Hosts = slices.Clone(m.Hosts[:len(ranges)])
	var data []byte
	for i, part := range ranges {
		h := &m.Hosts[i]
		h.Offset, h.Length, h.SHA256 = int64(len(data)), int64(len(part)), wire.Digest(part)
		data = append(data, part...)
	}
	m.Size, m.SHA256 = 0, ""
	inner, err := json.Marshal(m)
	testkit.Must(t, err)
	return r.Resign(t, &Batch{ID: b.ID, Data: append(data, Tail(t, inner)...), Manifest: &m})
}

// Tail returns what follows the hosts in a batch with the given manifest inside.
func Tail(t testing.TB, manifest []byte) []byte {
	t.Helper()
	var tail bytes.Buffer
	_, _, err := archive.NewBatchWriter(&tail).Finish(manifest)
	testkit.Must(t, err)
	return tail.Bytes()
}

// Range returns the part of the batch's n-th host.
func (b *Batch) Range(n int) []byte {
	h := b.Manifest.Hosts[n]
	return b.Data[h.Offset : h.Offset+h.Length : h.Offset+h.Length]
}
