package foreign

import (
	"archive/zip"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"sheaf/internal/wire"
)

// A WACZ (https://specs.webrecorder.net/wacz/1.1.1/) is a zip with WARC files in its folder
// archive. The rest, an index and lists of pages, follows from them and is not read.
const (
	waczBegins = "PK\x03\x04"
	waczFolder = "archive"
)

// maxDirectory is how many bytes of a zip may be read to find its entries. The list takes some
// times as much memory.
const maxDirectory = 8 << 20

// openWACZ is begin for a WACZ. The stream has no content until it is read as one of the entries.
func openWACZ(ctx context.Context, file *os.File, limits Limits) (*stream, error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	s := &stream{close: func() error { return nil }, meter: newMeter(limits, size)}
	in := &directoryLimit{r: readerAt{ctx, s, file}, left: maxDirectory}
	z, err := zip.NewReader(in, size)
	switch {
	case s.disk != nil:
		return nil, s.disk
	case in.left < 0:
		return nil, wrong(0, "", wire.ReasonBombRatio, "the zip's list of entries has more than %d bytes, the limit", maxDirectory)
	case errors.Is(err, zip.ErrFormat):
		return nil, wrong(size, "", wire.ReasonTruncated, "the zip has no list of entries at its end: the file ends too early")
	case err != nil:
		return nil, wrong(0, "", wire.ReasonCorruptMember, "%v", err)
	}
	in.unlimited = true
	for _, f := range z.File {
		name := strings.ToLower(f.Name)
		if path.Dir(name) == waczFolder && (strings.HasSuffix(name, ".warc") || strings.HasSuffix(name, ".warc.gz")) {
			s.entries = append(s.entries, f)
		}
	}
	if len(s.entries) == 0 {
		return nil, wrong(0, "", wire.ReasonForeign, "the zip has no %s/*.warc.gz, so it is no WACZ", waczFolder)
	}
	return s, nil
}

// directoryLimit limits how much of a file is read until unlimited is set.
type directoryLimit struct {
	r         io.ReaderAt
	left      int64
	unlimited bool
}

func (d *directoryLimit) ReadAt(p []byte, off int64) (int, error) {
	if !d.unlimited {
		if d.left -= int64(len(p)); d.left < 0 {
			return 0, errors.New("the zip's list of entries is too long")
		}
	}
	return d.r.ReadAt(p, off)
}

// wacz converts the WARC files of a WACZ, in the order of its list.
func (c *conversion) wacz(in *stream) error {
	for _, f := range in.entries {
		err := c.waczEntry(in, f)
		var fault *Error
		if errors.As(err, &fault) {
			fault.Msg = fmt.Sprintf("%.200q: %s", f.Name, fault.Msg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waczEntry converts one WARC of a WACZ. Its offsets begin at 0.
func (c *conversion) waczEntry(in *stream, f *zip.File) (err error) {
	entry, err := f.Open()
	if err != nil {
		return in.reading(err, "")
	}
	defer entry.Close() // only memory is given back
	in.n = 0
	// The zip's own reading is counted too: entries may share bytes, or inflate before they are
	// inflated as gzip.
	raw := bufio.NewReaderSize(checked{entry, c.meter}, 256<<10)
	closeIt, err := in.unpack(raw, c.opt.inflate)
	if err != nil {
		return in.reading(err, "")
	}
	defer func() { err = errors.Join(err, closeIt()) }()
	if err := c.records(in, in.nextRecord); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, raw) // to the entry's checksum
	return in.reading(err, "")
}
