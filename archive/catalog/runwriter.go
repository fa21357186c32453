package catalog

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// runWriter writes a run to w, row by row in their order. It holds one block and
// the block index.
type runWriter struct {
	w     *bufio.Writer
	hash  hash.Hash
	codec *codec

	blockSize int    // bytes of rows after which a block is ended
	raw       []byte // the block that is being filled
	rows      int32  // in it
	first     string // its first key
	last      []byte // the last key written
	index     []byte
	ref       runRef
}

func newRunWriter(w io.Writer, c *codec, blockSize int) *runWriter {
	h := sha256.New()
	return &runWriter{w: bufio.NewWriter(io.MultiWriter(w, h)), hash: h, codec: c, blockSize: blockSize}
}

// put encodes one row and adds it.
func (w *runWriter) put(key string, value any) error {
	row, err := appendRow(nil, key, value)
	if err != nil {
		return err
	}
	return w.add(row[:len(row)-1])
}

// add adds one row, without its newline.
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
		first: w.first, offset: w.ref.Size, length: int32(len(frame)), rows: w.rows, crc: w.codec.sum(frame),
	})
	w.raw, w.rows = w.raw[:0], 0
	return w.write(frame)
}

func (w *runWriter) write(data []byte) error {
	n, err := w.w.Write(data)
	w.ref.Size += int64(n)
	return err
}

// finish writes the block index and the footer. The reference lacks the name.
func (w *runWriter) finish() (runRef, error) {
	if err := w.endBlock(); err != nil {
		return runRef{}, err
	}
	index := w.codec.deflate(w.index)
	w.ref.Index = w.ref.Size
	end := footer{index: w.ref.Index, rows: w.ref.Rows, indexCRC: w.codec.sum(index)}
	if err := w.write(skippable(frameIndex, index)); err != nil {
		return runRef{}, err
	}
	if err := w.write(end.encode(w.codec)); err != nil {
		return runRef{}, err
	}
	if err := w.w.Flush(); err != nil {
		return runRef{}, err
	}
	w.ref.Summed = true
	w.ref.SHA256 = hex.EncodeToString(w.hash.Sum(nil))
	return w.ref, nil
}

// addAll adds all rows of a sequence.
func (w *runWriter) addAll(ctx context.Context, r rows) error { return w.addUpTo(ctx, r, "") }

// addUpTo adds the rows of a sequence that lie before key; all, if that is empty.
func (w *runWriter) addUpTo(ctx context.Context, r rows, key string) error {
	for r.row() != nil && (key == "" || string(r.row()) < key) {
		if err := w.add(r.row()); err != nil {
			return err
		}
		if err := r.next(ctx); err != nil {
			return err
		}
	}
	return nil
}
