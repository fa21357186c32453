package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"

	"sheaf/archive/crcmath"
	"sheaf/internal/extent"
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

// WACZOptions are what a WACZ needs besides the parts.
type WACZOptions struct {
	Title   string    // of the collection
	Created time.Time // also the time of the entries

	// WARCSHA256 is the SHA-256 of the parts' WARC view, in hexadecimal. If it is empty, the
	// package has no hash of the data, which the records' own digests cover.
	WARCSHA256 string
}

// WACZ is a zip file of stored files around a WARC view: its index in compressed blocks (ZipNum),
// its pages, and a description. A player reads what it needs by ranges. Nothing is compressed again
// except for the index, which is in memory: some 60 bytes for each record.
type WACZ struct {
	frame // of the data: its local header, and what follows it
	warc  *View
	etag  string
}

// NewWACZ makes a WACZ.
func NewWACZ(parts []Part, opt WACZOptions) (*WACZ, error) {
	warc, err := NewView(WARC, parts)
	if err != nil {
		return nil, err
	}
	index, blocks, err := waczIndexes(warc)
	if err != nil {
		return nil, err
	}
	pages := waczPageList(warc)
	files := []waczFile{{waczIndex, index}, {waczBlocks, blocks}, {waczPages, pages}}
	describe, err := waczDescription(opt, warc.size, files)
	if err != nil {
		return nil, err
	}
	files = append(files, waczFile{waczPackage, describe})

	z := &WACZ{warc: warc, frame: frame{stored: warc.size}}
	entries := []zipEntry{{name: waczData, size: warc.size, crc: warc.crc()}}
	z.start = entries[0].localHeader(opt.Created)
	base := int64(len(z.start)) + warc.size
	for _, f := range files {
		e := zipEntry{name: f.name, size: int64(len(f.body)), crc: crc32.ChecksumIEEE(f.body), offset: base + int64(len(z.end))}
		z.end = append(append(z.end, e.localHeader(opt.Created)...), f.body...)
		entries = append(entries, e)
	}
	z.end = append(z.end, zipDirectory(entries, base+int64(len(z.end)), opt.Created)...)
	sum := sha256.Sum256(append([]byte(warc.etag), z.end...))
	z.etag = fmt.Sprintf(`"wacz%s-%s"`, viewVersion, hex.EncodeToString(sum[:16]))
	return z, nil
}

// ETag returns a strong entity tag, quoted.
func (z *WACZ) ETag() string { return z.etag }

// Held returns the number of bytes of the file that are in memory.
func (z *WACZ) Held() int64 { return int64(len(z.start) + len(z.end)) }

// OpenRange returns n bytes of the file from off.
func (z *WACZ) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return z.open(off, n, func(off, n int64) (io.ReadCloser, error) { return z.warc.OpenRange(ctx, off, n) })
}

// Extents returns n bytes of the file from off as extents, or nil if its records are not in local
// files.
func (z *WACZ) Extents(off, n int64) (extent.Reader, error) {
	head, from, to, tail, err := z.divide(off, n)
	if err != nil {
		return nil, err
	}
	data, err := z.warc.Extents(from, to-from)
	if data == nil || err != nil {
		return nil, err
	}
	return &waczExtents{data, head, tail}, nil
}

// waczExtents returns the extents of the records between bytes from memory.
type waczExtents struct {
	extent.Reader
	head, tail []byte
}

func (x *waczExtents) Next(ctx context.Context) (extent.Extent, error) {
	if head := x.head; len(head) > 0 {
		x.head = nil
		return extent.Extent{Bytes: head}, nil
	}
	e, err := x.Reader.Next(ctx)
	if tail := x.tail; err == io.EOF && len(tail) > 0 {
		x.tail = nil
		return extent.Extent{Bytes: tail}, nil
	}
	return e, err
}

// crc returns the CRC-32 of a WARC view, computed from those of its records.
func (v *View) crc() uint32 {
	crc := crc32.ChecksumIEEE(v.start)
	for _, r := range v.refs {
		crc = crcmath.Join(crc, r.cell.RecordCRC, r.cell.WARCLength())
	}
	return crc
}

// waczFile is a file in memory.
type waczFile struct {
	name string
	body []byte
}

// waczIndexes returns the sorted CDXJ lines of a WARC view in gzip members of waczBlockLines lines
// each, and the list of these blocks: each block's first key, place and SHA-256.
func waczIndexes(warc *View) (index, blocks []byte, err error) {
	lines := make([]string, len(warc.refs))
	at := int64(len(warc.start))
	for i, r := range warc.refs {
		lines[i] = string(r.cell.appendJSON(nil, r.cell.standardLine(at, strings.TrimPrefix(waczData, "archive/"))))
		at += r.cell.WARCLength()
	}
	slices.Sort(lines)
	var out bytes.Buffer
	list := bytes.NewBufferString(`!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}` + "\n")
	zw := gzip.NewWriter(nil)
	for block := range slices.Chunk(lines, waczBlockLines) {
		begin := out.Len()
		zw.Reset(&out)
		for _, line := range block {
			if _, err := io.WriteString(zw, line); err != nil {
				return nil, nil, err
			}
		}
		if err := zw.Close(); err != nil {
			return nil, nil, err
		}
		key, rest, _ := strings.Cut(block[0], " ")
		stamp, _, _ := strings.Cut(rest, " ")
		member := out.Bytes()[begin:]
		fmt.Fprintf(list, `%s %s {"offset": %d, "length": %d, "digest": "sha256:%x"}`+"\n", key, stamp, begin, len(member), sha256.Sum256(member))
	}
	return out.Bytes(), list.Bytes(), nil
}

// waczPage is a line of pages.jsonl.
type waczPage struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	Time  string `json:"ts"`
	MIME  string `json:"mime,omitempty"`
	Title string `json:"title,omitempty"`
}

// waczPageList lists the HTML pages: what a reader opens, not what these load.
func waczPageList(warc *View) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	io.WriteString(&out, `{"format": "json-pages-1.0", "id": "pages", "title": "All Pages", "hasText": false}`+"\n")
	for _, r := range warc.refs {
		c := r.cell
		if c.Kind != Page || (c.MIME != "text/html" && c.MIME != "application/xhtml+xml") {
			continue
		}
		id := sha256.Sum256([]byte(c.URL + c.Time.Format(time.RFC3339Nano)))
		enc.Encode(waczPage{hex.EncodeToString(id[:8]), c.URL, c.Time.UTC().Format(time.RFC3339Nano), c.MIME, c.URL})
	}
	return out.Bytes()
}

// waczResource describes a file of the package.
type waczResource struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Hash  string `json:"hash,omitempty"`
	Bytes int64  `json:"bytes"`
}

func waczDescription(opt WACZOptions, warcSize int64, files []waczFile) ([]byte, error) {
	base := func(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
	data := waczResource{Name: base(waczData), Path: waczData, Bytes: warcSize}
	if opt.WARCSHA256 != "" {
		data.Hash = "sha256:" + opt.WARCSHA256
	}
	resources := []waczResource{data}
	for _, f := range files {
		resources = append(resources, waczResource{base(f.name), f.name, fmt.Sprintf("sha256:%x", sha256.Sum256(f.body)), int64(len(f.body))})
	}
	return json.MarshalIndent(struct {
		Profile   string         `json:"profile"`
		Version   string         `json:"wacz_version"`
		Title     string         `json:"title,omitempty"`
		Created   string         `json:"created"`
		Software  string         `json:"software"`
		Resources []waczResource `json:"resources"`
	}{"data-package", "1.1.1", opt.Title, opt.Created.UTC().Format(time.RFC3339), "sheaf", resources}, "", "  ")
}
