package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"

	"sheaf/archive/store"
	"sheaf/internal/api"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
)

// Table is a finished table. It does not change.
type Table struct {
	tableHead
	ranges library.Ranges
	object string // key of the object with the table's bytes; "": no object has them
	cost   int64  // of keeping it in a cache: bytes of memory and of the temporary file
}

// tableHead is what is stored of a table besides its bytes.
type tableHead struct {
	Format      int       `json:"format"` // 1
	Rows        int64     `json:"rows"`
	Size        int64     `json:"size"` // bytes
	SHA256      string    `json:"sha256"`
	Scope       string    `json:"scope"`       // of the account for which it was made
	Withdrawals int64     `json:"withdrawals"` // of the catalog's version before it was made: see catalog.Snapshot
	At          time.Time `json:"at"`          // when that version was published
}

// headCost is about what a table takes in memory, in bytes.
const headCost = 1024

func (t *Table) memory() int64 { return t.cost }

// Records returns the number of rows.
func (t *Table) Records() int64 { return t.Rows }

// Size returns the file's length in bytes.
func (t *Table) Size() int64 { return t.tableHead.Size }

// Content opens the file's bytes.
func (t *Table) Content(ctx context.Context) (io.ReadCloser, error) {
	return t.ranges.OpenRange(ctx, 0, t.Size())
}

// Save writes everything but the bytes, for loadTable.
func (t *Table) Save(w io.Writer) error { return json.NewEncoder(w).Encode(t.tableHead) }

// loadTable reads a table that Save has written. Its bytes are an object of the store.
func loadTable(r io.Reader, st store.Store, object string) (*Table, error) {
	t := &Table{ranges: store.Source(st, object, 0), object: object, cost: headCost}
	if err := json.NewDecoder(r).Decode(&t.tableHead); err != nil {
		return nil, fmt.Errorf("stored table: %w", err)
	}
	if t.Format != 1 {
		return nil, fmt.Errorf("stored table has format %d; this program reads 1", t.Format)
	}
	return t, nil
}

// TableSink takes the records of a table, host by host. It must not be used concurrently.
type TableSink interface {
	Add(ctx context.Context, c *records.Capture) error
	Size() int64 // bytes that have been written so far
}

// TableIsOfRecords reports whether a table of this name is made of the records that a query finds.
func TableIsOfRecords(name string) bool {
	return name == api.TableOfRecords || name == api.TableOfLinks
}

// TableDepth says what a table of records is made of.
type TableDepth int

// What a table of records can be made of.
const (
	OfIndex  TableDepth = iota // the index alone
	OfBodies                   // the index, and the beginning of each text, for its charset and language
)

// Make makes the table called name, api.TableOfRecords or api.TableOfLinks, of the records that
// fill adds.
func (x *Files) Make(ctx context.Context, a *account.Account, name string, depth TableDepth, fill func(TableSink) error) (*Table, error) {
	return x.write(ctx, a, func(to io.Writer) (int64, error) {
		var w interface {
			TableSink
			finish(context.Context) (rows int64, err error)
		}
		if name == api.TableOfLinks {
			w = &linkWriter{rowWriter: newRowWriter[linkRow](to), from: x.Archive.Segments}
		} else {
			w = &recordWriter{rowWriter: newRowWriter[row](to), depth: depth}
		}
		if err := fill(w); err != nil {
			return 0, err
		}
		return w.finish(ctx)
	})
}

// write makes a table of the rows that fill finds and writes. fill returns their number. write
// takes a view of the catalog before it calls fill, which takes later views itself. A withdrawal
// after write's view makes the table void, so no row that fill saw before a withdrawal is given
// out.
func (x *Files) write(ctx context.Context, a *account.Account, fill func(io.Writer) (int64, error)) (*Table, error) {
	v, err := x.Archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	t := &Table{tableHead: tableHead{Format: 1, Scope: v.Sight(), Withdrawals: v.Snap.Withdrawals(), At: v.Snap.Published()}}
	v.Release()
	file := library.NewTempFile(0, nil)
	if t.Rows, err = fill(file); err != nil {
		return nil, errors.Join(fmt.Errorf("table: %w", err), file.Close())
	}
	t.tableHead.Size, t.SHA256, t.ranges, t.cost = file.Size, file.SHA256(), file, file.Size+headCost
	return t, nil
}

// check fails if anything of the archive was withdrawn since, or if the account may no longer see
// all that it saw then.
func (t *Table) check(v *library.AccountView) error {
	if !v.Sees(t.Scope) || v.Snap.Withdrawals() != t.Withdrawals {
		return library.ErrChanged
	}
	return nil
}

func (t *Table) entry() *library.Entry {
	return &library.Entry{
		Node:   library.Node{Size: t.Size(), ETag: `"` + t.SHA256[:32] + `"`, SHA256: t.SHA256, Type: api.Parquet, Modified: library.Seconds(t.At)},
		Open:   func(context.Context) (library.Ranges, error) { return t.ranges, nil },
		Object: t.object,
	}
}

const (
	groupRows  = 1 << 17  // rows of a row group; a writer holds the group's compressed pages in memory
	pageBytes  = 64 << 10 // bytes of a page, before compression: the least that a reader fetches of a column
	boundBytes = 96       // bytes that the index keeps of a page's least and greatest value: host and some path
	atOnce     = 256      // rows that go to the Parquet writer at once
)

// rowWriter writes the rows of a table. It holds about a row group in memory.
type rowWriter[T any] struct {
	to   *parquet.GenericWriter[T]
	next []T
	rows int64 // written so far
	size counted
}

func newRowWriter[T any](to io.Writer) *rowWriter[T] {
	w := &rowWriter[T]{size: counted{Writer: to}}
	w.to = newParquet[T](&w.size, pageBytes)
	return w
}

// Size returns how many bytes have been written so far.
func (w *rowWriter[T]) Size() int64 { return w.size.bytes }

// write adds a row, which may wait in memory until Close.
func (w *rowWriter[T]) write(row T) error {
	w.rows++
	if w.next = append(w.next, row); len(w.next) < atOnce {
		return nil
	}
	return w.flush()
}

func (w *rowWriter[T]) flush() error {
	_, err := w.to.Write(w.next)
	w.next = w.next[:0]
	return err
}

// Close writes what is left and ends the table. It leaves the writer below open.
func (w *rowWriter[T]) Close() error { return errors.Join(w.flush(), w.to.Close()) }

// recordWriter writes a table of records.
type recordWriter struct {
	*rowWriter[row]
	of    []*records.Capture // the records of next
	depth TableDepth

	host hostColumns // of the host of the last record
	name string      // of that host
}

// counted counts the bytes that pass.
type counted struct {
	io.Writer
	bytes int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes += int64(n)
	return n, err
}

// newParquet returns a writer of rows, as all tables have them. page is the size of a page in
// bytes, before compression.
func newParquet[T any](to io.Writer, page int) *parquet.GenericWriter[T] {
	return parquet.NewGenericWriter[T](to,
		parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(groupRows), parquet.PageBufferSize(page),
		parquet.ColumnIndexSizeLimit(func([]string) int { return boundBytes }), parquet.CreatedBy("sheaf", "1", "0"))
}

func (w *recordWriter) Add(ctx context.Context, c *records.Capture) (err error) {
	if c.Segment.Host != w.name {
		w.name, w.host = c.Segment.Host, columnsOf(c.Segment.Host)
	}
	r := rowOf(c, w.host)
	if r.Filename, r.Offset, err = c.Place(ctx); err != nil {
		return err
	}
	w.rows++
	w.next, w.of = append(w.next, r), append(w.of, c)
	if len(w.next) < atOnce {
		return nil
	}
	return w.flush(ctx)
}

func (w *recordWriter) flush(ctx context.Context) error {
	if w.depth == OfBodies {
		if err := setWritten(ctx, w.next, w.of); err != nil {
			return err
		}
	}
	w.of = w.of[:0]
	return w.rowWriter.flush()
}

func (w *recordWriter) finish(ctx context.Context) (rows int64, err error) {
	return w.rows, errors.Join(w.flush(ctx), w.Close())
}
