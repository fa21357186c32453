package foreign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"sheaf/archive"
	"sheaf/internal/preference"
	"sheaf/internal/stream"
	"sheaf/internal/wire"
)

// Options of a conversion. Robot is required.
type Options struct {
	Robot   string // the robot in whose name the batch is made
	Hosts   HostMap
	Dir     string // for temporary files of about the file's size; empty: the system's
	MaxBody int64  // longer bodies are cut and marked; 0: the default of archive.Writer
	Limits  Limits // of the file

	// Lenient leaves out the damaged parts of a WARC, an ARC or a WACZ, and lists them in the
	// Result. Without it a file with any damage is refused. Trees of page files are never converted
	// leniently.
	Lenient bool

	// Others receives the records that no segment can hold, each as one gzip member, in the order
	// of the file. If it is nil, these records are only counted.
	Others io.Writer
}

// Result says what a conversion has found in a file.
type Result struct {
	Kind      Kind         `json:"kind"`
	SHA256    string       `json:"sha256"` // of the file as received
	Batch     wire.BatchID `json:"batch"`
	Hosts     int          `json:"hosts"`
	Pages     int64        `json:"pages"`
	Responses int64        `json:"responses"`
	Revisits  int64        `json:"revisits"`
	Others    int64        `json:"others"` // records that no segment can hold
	OthersOf  []Stretch    `json:"-"`      // the hosts of the records written to Options.Others; together they cover all bytes
	Losses                 // of a lenient conversion

	// Aside lists, with reasons, the others that readers would expect at an address and do not find
	// there.
	Aside Losses `json:"aside,omitzero"`

	// Unread lists, with reasons, the entries of a WACZ with records that were not read, and
	// missing entries that its datapackage.json names. Their offsets are offsets in the zip.
	Unread Losses `json:"unread,omitzero"`
}

// Is returns the kind of a file that Convert can convert. It returns "" for other files, such as
// batches. If lenient is set, it returns WARC for damaged and unknown files, except batches.
func Is(ctx context.Context, file *os.File, lenient bool) (Kind, error) {
	head := make([]byte, 16)
	n, err := file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return "", err
	}
	if archive.BeginsBatch(head[:n]) {
		return "", nil
	}
	var kind Kind
	in, err := begin(ctx, file, Limits{})
	if err == nil {
		defer in.close()
		kind, err = in.kind()
	}
	var fault *Error
	if damaged := errors.As(err, &fault) || kind == "" && err == nil; damaged && lenient {
		return WARC, nil
	}
	if fault != nil {
		fault.Msg += "; if it is a WARC or an ARC, import it with --lenient to keep what is right"
	}
	return kind, err
}

// Convert reads a foreign file to its end and writes a batch with its pages to out. If the file is
// wrong, it returns an *Error, and the bytes in out are useless.
func Convert(ctx context.Context, file *os.File, out io.Writer, opt Options) (*Result, error) {
	dir, err := os.MkdirTemp(opt.Dir, "import-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	sum, _, err := wire.DigestOf(stream.UntilDone(ctx, io.NewSectionReader(file, 0, math.MaxInt64)))
	if err != nil {
		return nil, err
	}
	kind, err := Is(ctx, file, opt.Lenient)
	if err != nil {
		return nil, err
	}
	var tree *folders
	if kind == Tree {
		if tree, err = survey(ctx, file, opt); err != nil {
			return nil, err
		}
	}
	in, err := beginAs(ctx, file, kind, opt)
	if err != nil {
		return nil, advise(err, kind)
	}
	defer in.close()
	c := &conversion{
		ctx: ctx, meter: in.meter, opt: opt, result: &Result{Kind: kind, SHA256: sum, Unread: in.unread},
		dir: dir, block: &block{dir: dir}, spare: &block{dir: dir},
		others:    newOthers(opt.Others),
		segments:  newSegments(dir, "import-"+sum[:16], archive.WriterOptions{MaxBody: opt.MaxBody}),
		originals: make(map[original]page),
		head:      bufio.NewReaderSize(nil, preference.Searched),
		folders:   tree,
	}
	defer c.segments.drop()
	defer c.block.reset()
	defer c.spare.reset()
	if err := c.convert(in); err != nil {
		return nil, advise(err, kind)
	}
	if err := c.finish(in, out); err != nil {
		return nil, err
	}
	return c.result, nil
}

// beginAs opens a file of a kind for reading, leniently if the options say so.
func beginAs(ctx context.Context, file *os.File, kind Kind, opt Options) (*input, error) {
	switch {
	case kind == WACZ:
		in, err := openWACZ(ctx, file, opt.Limits)
		if _, ok := errors.AsType[*Error](err); opt.Lenient && ok {
			in, err = openLenient(ctx, file, kind, opt.Limits) // the whole zip as one damaged WARC
		}
		return in, err
	case opt.Lenient && kind != Tree:
		return openLenient(ctx, file, kind, opt.Limits)
	}
	return begin(ctx, file, opt.Limits)
}

// advise adds to the error of a damaged file the advice to import it leniently.
func advise(err error, kind Kind) error {
	if fault, ok := errors.AsType[*Error](err); (kind == WARC || kind == ARC || kind == WACZ) && ok && fault.Reason != wire.ReasonBombRatio && fault.Reason != wire.ReasonForeign {
		fault.Msg += "; to keep what is right, import the file with --lenient"
	}
	return err
}

// convert converts the records or pages of the file.
func (c *conversion) convert(in *input) (err error) {
	switch {
	case in.parts != nil:
		c.result.Kind, err = c.salvage(in, c.result.Kind, WARC, ARC)
		return err
	case in.entries != nil && c.opt.Lenient:
		return c.salvageWACZ(in)
	case in.entries != nil:
		return c.wacz(in)
	case c.result.Kind == WARC:
		err = c.records(in, in.nextRecord)
	case c.result.Kind == ARC:
		err = c.records(in, in.nextARC)
	case c.result.Kind == Tree:
		err = c.tree(in)
	default:
		err = wrong(0, "", wire.ReasonForeign, "neither a WARC, an ARC, a WACZ, nor a tar of page files")
	}
	return in.whole(err)
}

// conversion is the state of converting one file.
type conversion struct {
	ctx       context.Context
	meter     *meter
	opt       Options
	result    *Result
	dir       string // for temporary files
	block     *block // of the present record
	spare     *block // of the answer that waits for its request
	exchange  exchange
	segments  *segments
	others    *others
	originals map[original]page // pages that revisits may refer to
	newest    time.Time
	head      *bufio.Reader // beginning of the present record's body
	searched  bytes.Buffer  // as much of it as is searched for links
	folders   *folders      // of a tree
	about     time.Time     // date of the newest record beside the batch, without the file's description of itself
}

// append stores a record and counts it.
func (c *conversion) append(r *archive.Record) (archive.Cell, error) {
	c.preferences(r)
	c.links(r)
	cell, err := c.segments.append(r)
	if err != nil {
		return cell, err
	}
	switch cell.Kind {
	case archive.Page:
		c.result.Pages++
	case archive.Response, archive.Partial:
		c.result.Responses++
	case archive.Revisit:
		c.result.Revisits++
	}
	if cell.Time.After(c.newest) {
		c.newest = cell.Time
	}
	return cell, nil
}

// preferences stores what the page asks of those who use it. If its body cannot be read, the error
// comes again when the record is stored.
func (c *conversion) preferences(r *archive.Record) {
	var body []byte
	if r.Kind == archive.Page && r.Body != nil {
		c.head.Reset(r.Body)
		body, _ = c.head.Peek(preference.Searched)
		r.Body = c.head
	}
	r.Preferences = preference.Of(r.URL, r.HTTP, body)
}

// refused is like reading, for errors of storing a record. If the archive refuses the record, the
// file is at fault.
func (s *input) refused(err error, at int64, entry string) error {
	if errors.Is(err, archive.ErrRefused) {
		return wrong(at, entry, wire.ReasonCorruptMember, "%v", err)
	}
	return s.reading(err, entry)
}

// finish joins the segments into a batch. The batch's number comes from the file's digest, and its
// time from the newest record. If all records are beside the batch, the batch has no hosts.
func (c *conversion) finish(in *input, out io.Writer) error {
	const most = 1_000_000_000 // a batch ID's number has at most nine digits
	number, err := strconv.ParseUint(c.result.SHA256[:16], 16, 64)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(out, 256<<10)
	w := archive.NewBatchWriter(buffered)
	newest := c.newest
	if newest.IsZero() {
		newest = c.about
	}
	m := wire.Manifest{
		Format: wire.ManifestFormat, Robot: c.opt.Robot,
		Version: "import of sha256:" + c.result.SHA256,
		Created: newest.UTC().Truncate(time.Second).Add(time.Second),
	}
	m.Batch = wire.NewBatchID(c.opt.Robot, m.Created, int64(number%most))
	err = c.segments.each(func(src archive.Source, x *archive.Index) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		h, err := w.AddSegment(c.ctx, src, x)
		m.Hosts = append(m.Hosts, h)
		return err
	})
	if err != nil {
		return err
	}
	if len(m.Hosts) == 0 && c.about.IsZero() {
		return wrong(in.n, "", wire.ReasonForeign, "of its %d records none is about a page", c.result.Others)
	}
	inner, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, _, err := w.Finish(inner); err != nil {
		return err
	}
	c.result.Batch, c.result.Hosts, c.result.OthersOf = m.Batch, len(m.Hosts), c.others.assign(m.Hosts)
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("write the batch: %w", err)
	}
	return nil
}
