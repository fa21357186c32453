package catalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sort"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/klauspost/compress/zstd"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// library opens runs. It holds their store and the cache of blocks.
type library struct {
	store store.Store
	codec *codec
	cache *lru.Cache[blockID, *sortedrun.Block]
}

type blockID struct {
	run   string
	block int64
}

// run is an open run: its block index is in memory. It may be used concurrently.
type run struct {
	runRef
	lib     *library
	blocks  []block
	passing bool // see passing
}

// open opens a run: it reads the block index, and compares it with ref.
func (l *library) open(ctx context.Context, ref runRef) (*run, error) {
	tail, err := store.ReadAll(ctx, l.store, ref.Name, ref.Index, ref.Size-ref.Index)
	if err != nil {
		return nil, err
	}
	blocks, err := l.parseTail(ref, tail)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", ref.Name, err)
	}
	return &run{runRef: ref, lib: l, blocks: blocks}, nil
}

func (l *library) parseTail(ref runRef, tail []byte) ([]block, error) {
	if len(tail) < footerSize {
		return nil, fmt.Errorf("%d bytes from the index on: %w", len(tail), ErrCorrupt)
	}
	cut := len(tail) - footerSize
	end, err := decodeFooter(l.codec, tail[cut:])
	if err != nil {
		return nil, err
	}
	if end.index != ref.Index || end.rows != ref.Rows {
		return nil, fmt.Errorf("footer says %d rows, index at %d; the version says %d rows, index at %d: %w",
			end.rows, end.index, ref.Rows, ref.Index, ErrCorrupt)
	}
	frame, err := unskip(frameIndex, tail[:cut])
	if err != nil {
		return nil, fmt.Errorf("block index: %w", err)
	}
	text, err := l.codec.inflate(frame, end.indexCRC)
	if err != nil {
		return nil, fmt.Errorf("block index: %w", err)
	}
	return parseBlocks(string(text), ref.Index)
}

// Len returns the number of blocks.
func (r *run) Len() int64 { return int64(len(r.blocks)) }

// Find returns the number of the last block that begins before bound, or 0.
func (r *run) Find(_ context.Context, bound string) (int64, error) {
	i := sort.Search(len(r.blocks), func(i int) bool { return r.blocks[i].first >= bound })
	return int64(max(i-1, 0)), nil
}

// Block returns a block from the cache, or reads it.
func (r *run) Block(ctx context.Context, n int64) (*sortedrun.Block, error) {
	id := blockID{r.Name, n}
	if b, ok := r.lib.cache.Get(id); ok {
		return b, nil
	}
	at := r.blocks[n]
	frame, err := store.ReadAll(ctx, r.lib.store, r.Name, at.offset, int64(at.length))
	if err != nil {
		return nil, err
	}
	data, err := r.lib.codec.inflate(frame, at.crc)
	if err != nil {
		return nil, fmt.Errorf("run %s, block at %d: %w", r.Name, at.offset, err)
	}
	b, err := sortedrun.NewBlock(data, int(at.rows))
	if err != nil {
		return nil, fmt.Errorf("run %s, block at %d: %w: %w", r.Name, at.offset, err, ErrCorrupt)
	}
	if !r.passing {
		r.lib.cache.Add(id, b)
	}
	return b, nil
}

// passing returns the runs for a walk that reads each row once. Such a walk caches no blocks.
func passing(runs ...*run) []*run {
	once := make([]*run, len(runs))
	for i, r := range runs {
		once[i] = &run{r.runRef, r.lib, r.blocks, true}
	}
	return once
}

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

// runWriter writes a run, row by row in order. It holds one block and the block index in memory.
type runWriter struct {
	out   *sortedrun.Output
	codec *codec

	blockSize int    // bytes of rows after which a block ends
	raw       []byte // the current block
	rows      int32  // number of rows in it
	first     string // the key of its first row
	last      []byte // the key written last
	index     []byte
	ref       runRef
}

func newRunWriter(w io.Writer, c *codec, blockSize int) *runWriter {
	return &runWriter{out: sortedrun.NewOutput(w), codec: c, blockSize: blockSize}
}

// put adds the row with a key and the JSON of value.
func (w *runWriter) put(key string, value any) error {
	row, err := appendRow(nil, key, value)
	if err != nil {
		return err
	}
	return w.add(row[:len(row)-1])
}

// add adds a row, given without its newline. Its key must sort behind the previous row's key.
func (w *runWriter) add(row []byte) error {
	key := rowKey(row)
	if bytes.Compare(key, w.last) <= 0 {
		return fmt.Errorf("row %q after %q: rows must be in order", key, w.last)
	}
	if w.rows == 0 {
		w.first = string(key)
	}
	w.last = append(w.last[:0], key...)
	w.raw = append(append(w.raw, row...), '\n')
	w.rows++
	w.ref.Rows++
	switch string(key[:min(len(key), len(tableHost))]) {
	case tableTombstone:
		w.ref.Tombstones++
	case tableSummary:
		w.ref.Summaries++
	case tableExpired:
		w.ref.Expired++
	}
	if len(w.raw) >= w.blockSize {
		return w.endBlock()
	}
	return nil
}

func (w *runWriter) endBlock() error {
	if w.rows == 0 {
		return nil
	}
	frame := w.codec.deflate(w.raw)
	w.index = appendBlock(w.index, block{
		first: w.first, offset: w.out.Size(), length: int32(len(frame)), rows: w.rows, crc: w.codec.sum(frame),
	})
	w.raw, w.rows = w.raw[:0], 0
	_, err := w.out.Write(frame)
	return err
}

// finish writes the block index and the footer. It returns the run's description without the name.
func (w *runWriter) finish() (runRef, error) {
	if err := w.endBlock(); err != nil {
		return runRef{}, err
	}
	index := w.codec.deflate(w.index)
	w.ref.Index = w.out.Size()
	end := footer{index: w.ref.Index, rows: w.ref.Rows, indexCRC: w.codec.sum(index)}
	if _, err := w.out.Write(append(skippable(frameIndex, index), end.encode(w.codec)...)); err != nil {
		return runRef{}, err
	}
	var err error
	w.ref.Size = w.out.Size()
	w.ref.SHA256, err = w.out.Finish()
	return w.ref, err
}

// addAll adds the current row of a sequence and all rows behind it.
func (w *runWriter) addAll(ctx context.Context, r sortedrun.Rows) error { return w.addUpTo(ctx, r, "") }

// addUpTo is addAll, but ends before key, unless key is empty.
func (w *runWriter) addUpTo(ctx context.Context, r sortedrun.Rows, key string) error {
	for r.Row() != nil && (key == "" || string(r.Row()) < key) {
		if err := w.add(r.Row()); err != nil {
			return err
		}
		if err := r.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}

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
