package archive

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"time"

	"sheaf/archive/deflate"
	"sheaf/internal/files"
	"sheaf/internal/media"
	"sheaf/internal/stream"
)

// The names of the files in a WACZ (https://specs.webrecorder.net/wacz/1.1.1/).
const (
	waczData    = "archive/data.warc.gz"
	waczIndex   = "indexes/index.cdx.gz"
	waczBlocks  = "indexes/index.idx"
	waczPages   = "pages/pages.jsonl"
	waczPackage = "datapackage.json"
)

// waczBlockLines is the number of index lines in a compressed block. A player fetches one block,
// some 20 KB, for a page that it has not seen yet.
const waczBlockLines = 300

// WACZOptions give a WACZ its title, its time and the hash of its data.
type WACZOptions struct {
	Title   string    // of the collection
	Created time.Time // also the time of the entries

	// WARCSHA256 is the SHA-256 of the parts' WARC view, in hexadecimal. If it is empty, the WACZ
	// has no hash of the data; the records still have their own digests.
	WARCSHA256 string
}

// WACZ is a zip file with a WARC view, its index in compressed blocks (ZipNum), its list of pages,
// and a description. A player reads what it needs by ranges. The zip stores the records as they
// are. The files after them, some 300 bytes for each record, are in a temporary file. It is deleted
// when nothing refers to the WACZ any more.
type WACZ struct {
	frame       // its start is the local header of the data, its stored bytes are warc's
	warc  *View // the data
	etag  string
}

// NewWACZ makes a WACZ from the parts' indexes. It reads no stored record.
func NewWACZ(ctx context.Context, parts []Part, opt WACZOptions) (_ *WACZ, err error) {
	warc, err := NewView(WARC, parts)
	if err != nil {
		return nil, err
	}
	listed, err := waczFiles(ctx, parts, opt, warc.size)
	defer func() {
		for _, f := range listed {
			err = errors.Join(err, f.file.Close())
		}
	}()
	if err != nil {
		return nil, err
	}
	end, err := files.Nameless("")
	if err != nil {
		return nil, err
	}
	z := &WACZ{warc: warc, frame: frame{stored: warc.size, end: end}}
	sum := sha256.New()
	io.WriteString(sum, warc.etag)
	if err := z.finish(io.MultiWriter(end, sum), listed, opt.Created); err != nil {
		return nil, errors.Join(err, end.Close())
	}
	z.etag = fmt.Sprintf(`"wacz%s-%s"`, viewVersion, hex.EncodeToString(sum.Sum(nil)[:16]))
	return z, nil
}

// finish makes the bytes before the data. It writes the bytes after the data to the writer end: the
// other files and the zip's directory.
func (z *WACZ) finish(end io.Writer, listed []waczFile, created time.Time) error {
	entries := []zipEntry{{name: waczData, size: z.warc.size, crc: z.warc.crc()}}
	z.start = entries[0].localHeader(created)
	base := int64(len(z.start)) + z.warc.size
	for _, f := range listed {
		e := zipEntry{name: f.name, size: f.size, crc: f.crc, offset: base + z.after}
		header := e.localHeader(created)
		if _, err := io.Copy(end, io.MultiReader(bytes.NewReader(header), io.NewSectionReader(f.file, 0, f.size))); err != nil {
			return err
		}
		entries, z.after = append(entries, e), z.after+int64(len(header))+f.size
	}
	directory := zipDirectory(entries, base+z.after, created)
	z.after += int64(len(directory))
	_, err := end.Write(directory)
	return err
}

// ETag returns a strong entity tag, quoted.
func (z *WACZ) ETag() string { return z.etag }

// Held returns the approximate size of z in memory, in bytes.
func (z *WACZ) Held() int64 { return int64(len(z.start)) + z.warc.Held() }

// OpenRange returns n bytes of the file from off.
func (z *WACZ) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return z.open(off, n, func(off, n int64) (io.ReadCloser, error) { return z.warc.OpenRange(ctx, off, n) })
}

// Extents returns n bytes of the file from off as extents, or nil where View.Extents returns nil.
func (z *WACZ) Extents(off, n int64) (stream.Reader, error) {
	head, from, to, tail, err := z.divide(off, n)
	if err != nil {
		return nil, err
	}
	data, err := z.warc.Extents(from, to-from)
	if data == nil || err != nil {
		return nil, err
	}
	return &waczExtents{Reader: data, head: head, tail: tail}, nil
}

// waczExtents returns the bytes before the records, the records' extents, and the bytes after.
type waczExtents struct {
	stream.Reader
	head []byte
	tail *io.SectionReader
	buf  []byte
}

func (x *waczExtents) Next(ctx context.Context) (stream.Extent, error) {
	if head := x.head; len(head) > 0 {
		x.head = nil
		return stream.Extent{Bytes: head}, nil
	}
	e, err := x.Reader.Next(ctx)
	if err != io.EOF {
		return e, err
	}
	if x.buf == nil {
		x.buf = make([]byte, min(extentBuffer, x.tail.Size()))
	}
	n, err := x.tail.Read(x.buf)
	if n > 0 {
		return stream.Extent{Bytes: x.buf[:n]}, nil
	}
	return stream.Extent{}, err
}

// crc returns the CRC-32 of a WARC view, computed from the CRCs of its records.
func (v *View) crc() uint32 {
	crc := crc32.ChecksumIEEE(v.start)
	for _, r := range v.refs {
		crc = deflate.JoinCRC(crc, r.cell.RecordCRC, r.cell.WARCLength())
	}
	return crc
}

// waczFile is a file of a WACZ, in a temporary file.
type waczFile struct {
	name string
	file *os.File
	size int64
	crc  uint32
	sum  []byte // SHA-256
}

func newWACZFile(name string, write func(io.Writer) error) (f waczFile, err error) {
	f.name = name
	if f.file, err = files.Nameless(""); err != nil {
		return f, err
	}
	sum, crc := sha256.New(), crc32.NewIEEE()
	out := bufio.NewWriterSize(io.MultiWriter(f.file, sum, crc), 64<<10)
	if err = write(out); err == nil {
		err = out.Flush()
	}
	if err == nil {
		f.size, err = f.file.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		return f, errors.Join(err, f.file.Close())
	}
	f.crc, f.sum = crc.Sum32(), sum.Sum(nil)
	return f, nil
}

// waczFiles makes the files beside the data. size is the data's length. Close the files, even after
// an error.
func waczFiles(ctx context.Context, parts []Part, opt WACZOptions, size int64) (listed []waczFile, err error) {
	var blocks bytes.Buffer
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{waczIndex, func(w io.Writer) error { return writeIndexBlocks(ctx, w, &blocks, parts) }},
		{waczBlocks, func(w io.Writer) error { _, err := blocks.WriteTo(w); return err }},
		{waczPages, func(w io.Writer) error { return writePageList(w, parts) }},
		{waczPackage, func(w io.Writer) error { return writeDescription(w, opt, size, listed) }},
	} {
		file, err := newWACZFile(f.name, f.write)
		if err != nil {
			return listed, err
		}
		listed = append(listed, file)
	}
	return listed, nil
}

// writeIndexBlocks writes the sorted CDXJ lines of a WARC view to w, in gzip members of
// waczBlockLines lines each. For each of these blocks it writes the first key, the place and the
// SHA-256 to list.
func writeIndexBlocks(ctx context.Context, w, list io.Writer, parts []Part) (err error) {
	x := NewCDXJ(strings.TrimPrefix(waczData, "archive/"))
	defer func() { err = errors.Join(err, x.Close()) }()
	for _, p := range parts {
		if err := x.Add(p); err != nil {
			return err
		}
	}
	lines, err := x.lines.Rows(ctx)
	if err != nil {
		return err
	}
	io.WriteString(list, `!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}`+"\n")
	var block bytes.Buffer
	zw, at := gzip.NewWriter(nil), int64(0)
	for lines.Row() != nil {
		block.Reset()
		zw.Reset(&block)
		key, rest, _ := strings.Cut(string(lines.Row()), " ")
		stamp, _, _ := strings.Cut(rest, " ")
		for n := 0; n < waczBlockLines && lines.Row() != nil; n++ {
			zw.Write(lines.Row()) // cannot fail: to memory
			zw.Write([]byte("\n"))
			if err := lines.Next(ctx); err != nil {
				return err
			}
		}
		if err := zw.Close(); err != nil {
			return err
		}
		fmt.Fprintf(list, `%s %s {"offset": %d, "length": %d, "digest": "sha256:%x"}`+"\n", key, stamp, at, block.Len(), sha256.Sum256(block.Bytes()))
		n, err := block.WriteTo(w)
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// waczPage is a line of pages.jsonl.
type waczPage struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	Time  string `json:"ts"`
	MIME  string `json:"mime,omitempty"`
	Title string `json:"title,omitempty"`
}

// writePageList lists the HTML pages, without the resources that they load.
func writePageList(w io.Writer, parts []Part) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	io.WriteString(w, `{"format": "json-pages-1.0", "id": "pages", "title": "All Pages", "hasText": false}`+"\n")
	for _, p := range parts {
		for c := range p.wanted() {
			if c.Kind != Page || !media.IsHTML(c.MIME) {
				continue
			}
			id := sha256.Sum256([]byte(c.URL + c.Time.Format(time.RFC3339Nano)))
			if err := enc.Encode(waczPage{hex.EncodeToString(id[:8]), c.URL, c.Time.UTC().Format(time.RFC3339Nano), c.MIME, c.URL}); err != nil {
				return err
			}
		}
	}
	return nil
}

// waczResource is a file's entry in datapackage.json.
type waczResource struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Hash  string `json:"hash,omitempty"`
	Bytes int64  `json:"bytes"`
}

func writeDescription(w io.Writer, opt WACZOptions, warcSize int64, listed []waczFile) error {
	base := func(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
	data := waczResource{Name: base(waczData), Path: waczData, Bytes: warcSize}
	if opt.WARCSHA256 != "" {
		data.Hash = "sha256:" + opt.WARCSHA256
	}
	resources := []waczResource{data}
	for _, f := range listed {
		resources = append(resources, waczResource{base(f.name), f.name, fmt.Sprintf("sha256:%x", f.sum), f.size})
	}
	text, err := json.MarshalIndent(struct {
		Profile   string         `json:"profile"`
		Version   string         `json:"wacz_version"`
		Title     string         `json:"title,omitempty"`
		Created   string         `json:"created"`
		Software  string         `json:"software"`
		Resources []waczResource `json:"resources"`
	}{"data-package", "1.1.1", opt.Title, opt.Created.UTC().Format(time.RFC3339), "sheaf", resources}, "", "  ")
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
