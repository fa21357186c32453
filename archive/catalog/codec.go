package catalog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"
)

const (
	frameIndex  = 0x184D2A50 // skippable frame that holds the block index
	frameFooter = 0x184D2A51 // skippable frame that holds the footer
	frameHeader = 8          // magic and length of a skippable frame
	maxDecoded  = 1 << 30    // limit for a decoded block or block index, in bytes
)

// codec compresses and inflates the blocks of runs. It may be used concurrently.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
	crc *crc32.Table
}

func newCodec() (*codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxDecoded))
	if err != nil {
		return nil, err
	}
	return &codec{enc: enc, dec: dec, crc: crc32.MakeTable(crc32.Castagnoli)}, nil
}

func (c *codec) sum(data []byte) uint32 { return crc32.Checksum(data, c.crc) }

// deflate returns data as one zstd frame.
func (c *codec) deflate(data []byte) []byte { return c.enc.EncodeAll(data, nil) }

// inflate checks the CRC-32C of a zstd frame and returns its content.
func (c *codec) inflate(data []byte, sum uint32) ([]byte, error) {
	if got := c.sum(data); got != sum {
		return nil, fmt.Errorf("CRC-32C is %08x, want %08x: %w", got, sum, ErrCorrupt)
	}
	out, err := c.dec.DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	return out, nil
}

// skippable returns data in a frame that zstd readers skip.
func skippable(magic uint32, data []byte) []byte {
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, frameHeader+len(data)), magic)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(data)))
	return append(out, data...)
}

// unskip returns the content of a skippable frame with the given magic. The frame must fill data.
func unskip(magic uint32, data []byte) ([]byte, error) {
	if len(data) < frameHeader || binary.LittleEndian.Uint32(data) != magic ||
		int64(binary.LittleEndian.Uint32(data[4:])) != int64(len(data)-frameHeader) {
		return nil, fmt.Errorf("no frame %08x of %d bytes: %w", magic, len(data), ErrCorrupt)
	}
	return data[frameHeader:], nil
}
