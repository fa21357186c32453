package foreign

import (
	"archive/zip"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"sheaf/internal/wire"
)

// A WACZ (https://specs.webrecorder.net/wacz/1.1.1/) is a zip with WARC files in its folder
// archive, or where its datapackage.json says. The other files, an index and lists of pages, were
// derived from the WARC files and are not read.
const (
	waczBegins  = "PK\x03\x04"
	waczFolder  = "archive"
	waczPackage = "datapackage.json"
)

// maxPackage is the largest datapackage.json of a WACZ, in bytes.
const maxPackage = 8 << 20

// maxDirectory is how many bytes of a zip may be read to find its entries. The list of entries
// takes several times as much memory.
const maxDirectory = 8 << 20

// openWACZ is begin for a WACZ. The input has no content until waczEntry opens one of the entries.
func openWACZ(ctx context.Context, file *os.File, limits Limits) (*input, error) {
	s, whole, err := newInput(ctx, file, limits)
	if err != nil {
		return nil, err
	}
	size := whole.Size()
	in := &directoryLimit{r: whole, left: maxDirectory}
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
	in.unlimited, s.file = true, io.NewSectionReader(file, 0, size)
	for _, f := range z.File {
		if _, err := f.DataOffset(); s.disk != nil {
			return nil, s.disk
		} else if err != nil {
			return nil, wrong(0, "", wire.ReasonCorruptMember, "%.200q: the list of entries says that it is where it is not", f.Name)
		}
	}
	if err := s.choose(z.File); err != nil {
		return nil, err
	}
	if len(s.entries) == 0 {
		return nil, wrong(0, "", wire.ReasonForeign, "the zip has no %s/*.warc.gz, and no %s that names one, so it is no WACZ", waczFolder, waczPackage)
	}
	return s, nil
}

// choose makes the WARC files of a WACZ the input's entries. Other files with records, and files
// that are named but missing, become unread. It reads the first list of resources only, so that the
// names take a bounded amount of memory.
func (s *input) choose(files []*zip.File) error {
	var named []string
	listed := false
	for _, f := range files {
		if f.Name != waczPackage {
			continue
		}
		if listed {
			s.unread.add(unread(f, wire.ReasonForeign, "another list of resources; only the first is read"))
			continue
		}
		listed = true
		paths, err := s.resources(f)
		var over *Error
		switch {
		case s.disk != nil:
			return s.disk
		case errors.As(err, &over):
			return err
		case err != nil:
			s.unread.add(unread(f, wire.ReasonCorruptMember, "its list of resources cannot be read: %v", err))
		}
		named = append(named, paths...)
	}
	there := make(map[string]bool, len(files))
	for _, f := range files {
		there[f.Name] = true
	}
	missing := make(map[string]bool, len(named))
	for _, name := range named {
		if !there[name] && !missing[name] {
			s.unread.add(Loss{Reason: wire.ReasonTruncated, Detail: fmt.Sprintf("%.200q: %s names it, and the zip does not have it", name, waczPackage)})
		}
		missing[name] = !there[name]
	}
	for _, f := range files {
		_, names := missing[f.Name]
		switch {
		case hasSuffix(f.Name, ".warc", ".warc.gz") && (names || path.Dir(strings.ToLower(f.Name)) == waczFolder):
			s.entries = append(s.entries, f)
		case hasSuffix(f.Name, ".warc", ".warc.gz"):
			s.unread.add(unread(f, wire.ReasonForeign, "a WARC outside the folder %s that %s does not name", waczFolder, waczPackage))
		case hasSuffix(f.Name, ".warc.zst", ".arc", ".arc.gz", ".wacz"):
			s.unread.add(unread(f, wire.ReasonForeign, "only .warc and .warc.gz are read in a WACZ; import it by itself"))
		}
	}
	return nil
}

// resources returns the paths in a datapackage.json.
func (s *input) resources(f *zip.File) (paths []string, err error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close() // only frees memory
	text, err := io.ReadAll(io.LimitReader(checked{in, s.meter}, maxPackage+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxPackage {
		return nil, fmt.Errorf("it has more than %d bytes, the limit", maxPackage)
	}
	var list struct {
		Resources []struct {
			Path string `json:"path"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	for _, r := range list.Resources {
		if r.Path != "" { // otherwise the datapackage.json itself has the resource's data
			paths = append(paths, path.Clean(r.Path))
		}
	}
	return paths, nil
}

// unread returns a Loss that says why an entry was not read.
func unread(f *zip.File, reason wire.Reason, format string, args ...any) Loss {
	at, _ := f.DataOffset() // openWACZ has already asked for it
	return Loss{Offset: at, Reason: reason, Detail: fmt.Sprintf("%.200q: %s", f.Name, fmt.Sprintf(format, args...))}
}

// hasSuffix reports whether a name ends with one of the suffixes, in any case.
func hasSuffix(name string, suffixes ...string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// directoryLimit limits how much of a file may be read until unlimited is set.
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

// wacz converts the WARC files of a WACZ, in the order of the zip's list.
func (c *conversion) wacz(in *input) error {
	for _, f := range in.entries {
		aside := len(c.result.Aside.Losses)
		err := c.waczEntry(in, f)
		c.result.Aside.within(f.Name, aside)
		if fault, ok := errors.AsType[*Error](err); ok {
			fault.Msg = fmt.Sprintf("%.200q: %s", f.Name, fault.Msg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waczEntry converts one WARC of a WACZ. Its offsets count from the beginning of the WARC.
func (c *conversion) waczEntry(in *input, f *zip.File) (err error) {
	entry, err := f.Open()
	if err != nil {
		return in.reading(err, "")
	}
	defer entry.Close() // only frees memory
	in.n = 0
	// The bytes that come out of the zip count too: entries may share bytes, or be compressed both
	// by the zip and by gzip.
	raw := bufio.NewReaderSize(checked{entry, c.meter}, 256<<10)
	closeIt, err := in.unpack(c.ctx, raw)
	if err != nil {
		return in.reading(err, "")
	}
	defer func() { err = errors.Join(err, closeIt()) }()
	if err := c.records(in, in.nextRecord); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, raw) // reads up to the entry's checksum
	return in.reading(err, "")
}

// salvageWACZ converts the WARC files of a WACZ leniently. It ignores the zip's own checksums.
func (c *conversion) salvageWACZ(in *input) error {
	for _, f := range in.entries {
		listed, aside := len(c.result.Losses.Losses), len(c.result.Aside.Losses)
		err := c.salvageEntry(in, f)
		var fault *Error
		switch err = in.reading(err, ""); {
		case errors.As(err, &fault) && fault.Reason != wire.ReasonBombRatio:
			c.result.Losses.add(Loss{Offset: fault.Offset, Reason: fault.Reason, Detail: fault.Msg})
		case err != nil:
			return err
		}
		c.result.Losses.within(f.Name, listed)
		c.result.Aside.within(f.Name, aside)
	}
	if c.meter.entries == 0 {
		return noRecord()
	}
	return nil
}

// salvageEntry converts one WARC leniently. It reads the WARC in the zip or, if the zip compresses
// it, from a temporary file with everything that can be inflated. Its error is one more loss.
func (c *conversion) salvageEntry(in *input, f *zip.File) (err error) {
	entry := &input{meter: in.meter}
	var at, size int64
	file, lost := io.ReaderAt(in.file), error(nil)
	if f.Method == zip.Store {
		if at, err = f.DataOffset(); err != nil { // impossible: openWACZ has asked for it
			return err
		}
		size = max(0, min(int64(f.CompressedSize64), in.file.Size()-at))
		if err := c.meter.read(size); err != nil { // entries may share bytes
			return wrong(0, "", wire.ReasonBombRatio, "%v", err)
		}
	} else {
		inflated, err := os.CreateTemp(c.dir, "entry-*")
		if err != nil {
			return err
		}
		defer inflated.Close() // the file is deleted with its directory
		if size, lost = c.inflateEntry(in, f, inflated); in.disk != nil {
			return in.disk
		}
		file = inflated
	}
	if err := entry.leniently(io.NewSectionReader(readerAt{c.ctx, entry, file}, at, size), size, WARC, c.opt.Limits); err != nil {
		return err
	}
	_, err = c.salvage(entry, WARC)
	if fault, ok := errors.AsType[*Error](err); lost != nil && (err == nil || ok && fault.Reason == wire.ReasonForeign) {
		return lost
	}
	return err
}

// inflateEntry copies an entry's content to out, and returns its size. After an error out has what
// could be inflated.
func (c *conversion) inflateEntry(in *input, f *zip.File, out io.Writer) (int64, error) {
	r, err := f.Open()
	if err != nil {
		return 0, err
	}
	defer r.Close() // only frees memory
	in.n, err = io.Copy(out, checked{r, c.meter})
	return in.n, err
}
