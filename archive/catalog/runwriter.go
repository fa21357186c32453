package catalog

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"sheaf/archive/sortedrun"
)

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
