package catalog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// runRef describes a run within a version. See CATALOG.md.
type runRef struct {
	Name       string `json:"name"`  // key in the store
	Level      int    `json:"level"` // how often its rows have been merged
	Size       int64  `json:"size"`  // bytes
	Index      int64  `json:"index"` // offset of the block index's frame
	Rows       int64  `json:"rows"`
	Tombstones int64  `json:"tombstones,omitempty"` // rows of that table
	Expired    int64  `json:"expired,omitempty"`    // rows of that table
	Summaries  int64  `json:"summaries,omitempty"`  // rows of that table
	SHA256     string `json:"sha256"`

	built time.Time // when this process stored it; zero for a run from a version
}

// block is one line of a run's block index.
type block struct {
	first  string // key of the first row
	offset int64  // of the zstd frame in the run
	length int32  // of the frame
	rows   int32
	crc    uint32 // CRC-32C of the frame
}

func appendBlock(dst []byte, b block) []byte {
	return fmt.Appendf(dst, "%s\t%d\t%d\t%d\t%08x\n", b.first, b.offset, b.length, b.rows, b.crc)
}

// parseBlocks parses a block index. It checks that the blocks are in the order of their keys and
// follow one another without gaps from the run's beginning to end.
func parseBlocks(text string, end int64) ([]block, error) {
	blocks := make([]block, 0, strings.Count(text, "\n"))
	offset := int64(0)
	for line := range strings.Lines(text) {
		b, err := parseBlock(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("block index, line %d: %w: %w", len(blocks)+1, err, ErrCorrupt)
		}
		if b.offset != offset || b.length <= 0 || b.rows <= 0 ||
			len(blocks) > 0 && blocks[len(blocks)-1].first >= b.first {
			return nil, fmt.Errorf("block index, line %d: block %q at %d does not follow on the one before: %w",
				len(blocks)+1, b.first, b.offset, ErrCorrupt)
		}
		offset += int64(b.length)
		blocks = append(blocks, b)
	}
	if offset != end {
		return nil, fmt.Errorf("block index: blocks end at %d, want %d: %w", offset, end, ErrCorrupt)
	}
	return blocks, nil
}

func parseBlock(line string) (b block, err error) {
	f := strings.Split(line, "\t")
	if len(f) != 5 {
		return b, fmt.Errorf("%d fields, want 5", len(f))
	}
	b.first = f[0]
	if b.offset, err = strconv.ParseInt(f[1], 10, 64); err != nil {
		return b, err
	}
	length, err := strconv.ParseInt(f[2], 10, 32)
	if err != nil {
		return b, err
	}
	rows, err := strconv.ParseInt(f[3], 10, 32)
	if err != nil {
		return b, err
	}
	crc, err := strconv.ParseUint(f[4], 16, 32)
	b.length, b.rows, b.crc = int32(length), int32(rows), uint32(crc)
	return b, err
}

// footer is the end of a run. Its size is fixed, so that a run can be read without its version's
// record.
type footer struct {
	index    int64  // offset of the block index's frame
	rows     int64  // in the run
	indexCRC uint32 // CRC-32C of the content of the index frame
}

const (
	footerMagic = "sheafrun"
	footerSize  = frameHeader + 36
)

func (f footer) encode(c *codec) []byte {
	data := []byte(footerMagic)
	data = binary.LittleEndian.AppendUint32(data, 1) // format
	data = binary.LittleEndian.AppendUint64(data, uint64(f.index))
	data = binary.LittleEndian.AppendUint64(data, uint64(f.rows))
	data = binary.LittleEndian.AppendUint32(data, f.indexCRC)
	data = binary.LittleEndian.AppendUint32(data, c.sum(data))
	return skippable(frameFooter, data)
}

func decodeFooter(c *codec, frame []byte) (f footer, err error) {
	data, err := unskip(frameFooter, frame)
	if err != nil {
		return f, fmt.Errorf("footer: %w", err)
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	switch {
	case !bytes.HasPrefix(body, []byte(footerMagic)):
		return f, fmt.Errorf("footer: does not begin with %q: %w", footerMagic, ErrCorrupt)
	case c.sum(body) != sum:
		return f, fmt.Errorf("footer: CRC-32C is %08x, want %08x: %w", c.sum(body), sum, ErrCorrupt)
	case binary.LittleEndian.Uint32(body[8:]) != 1:
		return f, fmt.Errorf("footer: run of format %d, this program reads 1", binary.LittleEndian.Uint32(body[8:]))
	}
	f.index = int64(binary.LittleEndian.Uint64(body[12:]))
	f.rows = int64(binary.LittleEndian.Uint64(body[20:]))
	f.indexCRC = binary.LittleEndian.Uint32(body[28:])
	return f, nil
}
