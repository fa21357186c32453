package urlindex

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
	"sheaf/internal/files"
	"sheaf/internal/wire"
)

// makeRun writes rows to temporary files and stores them as a run, under a name of its own. Nobody
// reads the run until a state names it. Without rows makeRun stores nothing.
func (j *job) makeRun(ctx context.Context, k kind, level int, from sortedrun.Rows) (ref runRef, err error) {
	cdx, err := files.Nameless(j.builder.opt.TempDir)
	if err != nil {
		return ref, err
	}
	defer func() { err = errors.Join(err, cdx.Close()) }()
	idx, err := files.Nameless(j.builder.opt.TempDir)
	if err != nil {
		return ref, err
	}
	defer func() { err = errors.Join(err, idx.Close()) }()
	w, err := newRunWriter(cdx, idx, blockRows)
	if err != nil {
		return ref, err
	}
	for from.Row() != nil {
		gone, err := j.gone.has(from.Row())
		if err != nil {
			return ref, err
		}
		if !gone {
			if err := w.add(from.Row()); err != nil {
				return ref, err
			}
		}
		if err := from.Next(ctx); err != nil {
			return ref, err
		}
	}
	ref, pages, err := w.finish()
	if err != nil || ref.Rows == 0 {
		return runRef{}, err
	}
	ref.Level = level
	ref.Name = fmt.Sprintf("%s%020d-%s", runPrefix, j.prev.N+1, strings.ToLower(rand.Text()))
	ref.built = time.Now()
	objects := ref.objects()
	for i, of := range []struct {
		write string
		data  io.ReaderAt
	}{{writeRows, cdx}, {writeBlocks, idx}, {writePlaces, strings.NewReader(places)}, {writePages, bytes.NewReader(pages)}} {
		err := j.builder.opt.Boundary.Write(string(k)+of.write, func() error {
			return store.PutOwn(ctx, j.builder.store, objects[i].Key, of.data, objects[i].Size)
		})
		if err != nil {
			return ref, err
		}
	}
	return ref, nil
}

// rewrite stores one run with the rows of several runs, without erased and expired rows.
func (j *job) rewrite(ctx context.Context, k kind, level int, runs ...runRef) (ref runRef, err error) {
	from := make([]sortedrun.Rows, len(runs))
	for i, r := range runs {
		s, err := openStream(ctx, j.builder.store, r)
		if err != nil {
			return ref, err
		}
		defer s.close()
		from[i] = s
	}
	return j.makeRun(ctx, k, level, sortedrun.Merge(compareLines, from...))
}

// runWriter writes the objects of a run, line by line in order. It holds one block, one page of
// cluster.idx, and the list of pages in memory.
type runWriter struct {
	perBlock int
	cdx, idx *sortedrun.Output
	z        *gzip.Writer

	raw   []byte // the current block
	rows  int    // number of rows in it
	last  []byte // the line written last
	out   bytes.Buffer
	page  []byte // the lines of cluster.idx since the last page
	at    page   // entry of the current page
	pages []byte
	ref   runRef
}

// newRunWriter returns a runWriter to two files, with perBlock lines in a block.
func newRunWriter(cdx, idx io.Writer, perBlock int) (*runWriter, error) {
	z, err := gzip.NewWriterLevel(nil, gzipLevel)
	return &runWriter{perBlock: perBlock, cdx: sortedrun.NewOutput(cdx), idx: sortedrun.NewOutput(idx), z: z}, err
}

// gzipLevel is the compression level of the blocks.
const gzipLevel = 6

// add adds a line, without its newline. It skips a line that has the same Position as the line
// before.
func (w *runWriter) add(line []byte) error {
	if w.last != nil {
		switch c := compareLines(line, w.last); {
		case c < 0:
			return fmt.Errorf("line of %.100q after %.100q: lines must be in order", head(line), head(w.last))
		case c == 0:
			return nil
		}
	}
	w.last = append(w.last[:0], line...)
	w.raw = append(append(w.raw, line...), '\n')
	w.ref.Rows++
	if w.rows++; w.rows == w.perBlock {
		return w.endBlock()
	}
	return nil
}

func (w *runWriter) endBlock() error {
	if w.rows == 0 {
		return nil
	}
	w.out.Reset()
	w.z.Reset(&w.out)
	if _, err := w.z.Write(w.raw); err != nil {
		return err
	}
	if err := w.z.Close(); err != nil {
		return err
	}
	w.ref.Blocks++
	b := block{head: string(head(w.raw)), offset: w.cdx.Size(), length: int64(w.out.Len()), number: w.ref.Blocks}
	if len(w.page) == 0 {
		w.at = page{head: b.head, offset: w.idx.Size(), first: b.number}
	}
	w.page = appendBlock(w.page, b)
	if w.raw, w.rows = w.raw[:0], 0; w.ref.Blocks%pageBlocks == 0 {
		if err := w.endPage(); err != nil {
			return err
		}
	}
	_, err := w.cdx.Write(w.out.Bytes())
	return err
}

func (w *runWriter) endPage() error {
	if len(w.page) == 0 {
		return nil
	}
	w.at.length, w.at.crc = int64(len(w.page)), crc32.Checksum(w.page, castagnoli())
	w.pages = appendPage(w.pages, w.at)
	_, err := w.idx.Write(w.page)
	w.page = w.page[:0]
	return err
}

// finish completes both files. It returns the run without its name, and the list of pages.
func (w *runWriter) finish() (ref runRef, pages []byte, err error) {
	if err := w.endBlock(); err != nil {
		return ref, nil, err
	}
	if err := w.endPage(); err != nil {
		return ref, nil, err
	}
	if w.ref.Cdx, err = described(w.cdx); err != nil {
		return ref, nil, err
	}
	if w.ref.Idx, err = described(w.idx); err != nil {
		return ref, nil, err
	}
	w.ref.Pages = file{Size: int64(len(w.pages)), SHA256: wire.Digest(w.pages)}
	return w.ref, w.pages, nil
}

// described completes a file and returns its description.
func described(o *sortedrun.Output) (file, error) {
	digest, err := o.Finish()
	return file{Size: o.Size(), SHA256: digest}, err
}
