package archive

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"sheaf/archive/deflate"
)

// Sizes of the fixed parts of a segment's gzip member, in bytes.
const (
	blockSize   = 512 // tar's
	gzipHeader  = 10
	memberHead  = gzipHeader + 2 + fieldHead + 8 // including XLEN and WL; the blocks or further fields follow
	fieldHead   = 4
	trailerSize = 8
	wsSize      = 9 + trailerSize                             // WS's data: a stored block of CRLFCRLF and the record's trailer
	bodyHead    = memberHead + fieldHead + wsSize + fieldHead // offset of WP's data in B
	emptyMember = memberHead + 2 + trailerSize
	wiSize      = fieldHead + 16

	maxXLEN = 16000   // busybox fails on more than 16 KiB
	maxWP   = 31 << 9 // so that B's fields surely fit
)

// zeros are the bytes of padding and of the end of a tar.
var zeros [2 * blockSize]byte

// recordEnd is every record's last block: final, stored, CRLFCRLF.
const recordEnd = "\x01\x04\x00\xfb\xff\r\n\r\n"

// gzipStart begins every stored member: deflate, no time, unknown system; flags 4 says FEXTRA
// follows. gzipPlainStart has no flags.
const (
	gzipStart      = "\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff"
	gzipPlainStart = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
)

func appendField(b []byte, id string, data []byte) []byte {
	b = append(b, id...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(data)))
	return append(b, data...)
}

func appendTrailer(b []byte, crc uint32, size int64) []byte {
	b = binary.LittleEndian.AppendUint32(b, crc)
	return binary.LittleEndian.AppendUint32(b, uint32(size))
}

// appendMemberHead appends the head of a member of length bytes. Its FEXTRA is WL followed by
// extra.
func appendMemberHead(b []byte, length int64, extra []byte) []byte {
	b = append(b, gzipStart...)
	b = binary.LittleEndian.AppendUint16(b, uint16(fieldHead+8+len(extra)))
	b = append(b, 'W', 'L', 8, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(length))
	return append(b, extra...)
}

// appendMember appends a whole member with its blocks and its final block.
func appendMember(b, extra, blocks, final []byte, crc uint32, size int64) []byte {
	length := memberHead + len(extra) + len(blocks) + len(final) + trailerSize
	b = appendMemberHead(b, int64(length), extra)
	b = append(b, blocks...)
	b = append(b, final...)
	return appendTrailer(b, crc, size)
}

// EndMember returns the member of two zero blocks that ends a tar.gz. If indexLen is not 0, it has
// a WI field with the place of the index cell, from the segment's start. Batches and views end with
// EndMember(0, 0).
func EndMember(indexOff, indexLen int64) []byte {
	var extra []byte
	if indexLen > 0 {
		wi := binary.LittleEndian.AppendUint64(nil, uint64(indexOff))
		extra = appendField(nil, "WI", binary.LittleEndian.AppendUint64(wi, uint64(indexLen)))
	}
	return appendMember(nil, extra, nil, deflate.Zeros(len(zeros), true), crc32.ChecksumIEEE(zeros[:]), int64(len(zeros)))
}

// endMemberSize is the length of EndMember's result with WI.
const endMemberSize = memberHead + wiSize + 10 + trailerSize

// padding returns the number of zero bytes that follow a body of n bytes in the tar.
func padding(n int64) int { return int(-n & (blockSize - 1)) }

// padBlock returns PAD, the final block of every B. It holds the body's padding.
func padBlock(bodyLen int64) []byte { return deflate.Zeros(padding(bodyLen), true) }

// memberEnd returns the end of a view of one member that decodes to n bytes with the given CRC.
func memberEnd(crc uint32, n int64) []byte { return appendTrailer([]byte{3, 0}, crc, n) }

// singleEnd returns the end of a single-member view whose entries decode to n bytes with the given
// CRC.
func singleEnd(crc uint32, n int64) []byte {
	end := int64(len(zeros))
	return appendTrailer(bytes.Clone(deflate.Zeros(len(zeros), true)), deflate.JoinCRC(crc, deflate.CRC(zeros[:]), end), n+end)
}
