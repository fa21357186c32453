package library

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"
	"time"

	"sheaf/internal/cache"
	"sheaf/internal/files"
)

// ErrNoSpace says that a text cannot be written to a temporary file now: the disk is full, or the
// files that are being read take all that a Spools may have.
var ErrNoSpace = errors.New("the service has no space for a temporary file now; come again in a moment")

// Limits of a Spools besides its bytes.
const (
	spoolFiles   = 256 // files, each of which is open
	spoolsAtOnce = 2   // texts that are written at the same time
)

// Spools keeps the texts of documents in temporary files without a name, one for each text. All
// readers of a text share its file. Files that nobody reads are kept as long as there is room. Its
// methods may be called concurrently.
type Spools struct {
	limit   int64 // bytes of all files together
	writing chan struct{}
	flights cache.Group[*spooled]

	mu    sync.Mutex // guards what follows, and the readers of each file
	files map[string]*spooled
	bytes int64 // of files, and of those that are being written
	clock int64 // counts readers
}

// spooled is a text that was written once: in memory if it is short, or in a file.
type spooled struct {
	*TempFile
	readers int
	used    int64 // the Spools' clock when the last reader came
}

// NewSpools returns a Spools whose files have at most limit bytes together.
func NewSpools(limit int64) *Spools {
	return &Spools{limit: limit, writing: make(chan struct{}, spoolsAtOnce), files: make(map[string]*spooled)}
}

// open returns the text of a key. write writes it, unless it is there; callers that come meanwhile
// wait. A text once begun is written to its end, even if its callers go. A caller that goes before
// its text is begun gives up its turn, so that broken-off requests delay no other texts. A text
// that another text needs is written in the turn of the text that needs it. The caller must release
// the text.
func (s *Spools) open(ctx context.Context, key string, write func(context.Context, io.Writer) error) (*spooled, error) {
	for {
		if text := s.take(key); text != nil {
			return text, nil
		}
		within := ctx.Value(turnKey{}) != nil
		flight := key
		if within { // not shared with callers without a turn, who may wait for this one to end
			flight = "within another " + key
		}
		text, err := s.flights.Do(ctx, flight, func(toEnd context.Context) (*spooled, error) {
			if within {
				return s.write(toEnd, key, write)
			}
			select {
			case s.writing <- struct{}{}:
			case <-ctx.Done():
				return nil, cache.ErrLeft
			}
			defer func() { <-s.writing }()
			return s.write(context.WithValue(toEnd, turnKey{}, true), key, write)
		})
		if err != nil || text.InMemory() {
			return text, err
		}
	}
}

// turnKey is the key of a context within which a text is being written.
type turnKey struct{}

// take returns the text of a key for one more reader; nil if no file has it.
func (s *Spools) take(key string) *spooled {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.files[key]
	if text != nil {
		s.clock++
		text.readers, text.used = text.readers+1, s.clock
	}
	return text
}

// release drops a reader of a text. A text in memory need not be kept for its readers.
func (s *Spools) release(text *spooled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text.readers--
}

func (s *Spools) write(ctx context.Context, key string, write func(context.Context, io.Writer) error) (*spooled, error) {
	if text := s.take(key); text != nil { // it came since the caller looked
		s.release(text)
		return text, nil
	}
	reserved := int64(0) // bytes of the file
	w := NewTempFile(maxHeld, func(size int64) error {
		err := s.reserve(size - reserved)
		if err == nil {
			reserved = size
		}
		return err
	})
	out := bufio.NewWriterSize(w, 64<<10)
	err := write(ctx, out)
	if err == nil {
		err = out.Flush()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.bytes -= reserved
		if err = NoSpace(err); errors.Is(err, ErrNoSpace) {
			for s.dropOldest() { // so that there is room when the caller comes again
			}
		}
		return nil, errors.Join(err, w.Close())
	}
	if already := s.files[key]; already != nil {
		s.bytes -= reserved
		return already, w.Close()
	}
	text := &spooled{TempFile: w}
	if w.InMemory() {
		return text, nil
	}
	s.clock++
	text.used, s.files[key] = s.clock, text
	return text, nil
}

// reserve makes room for n more bytes, or fails with ErrNoSpace.
func (s *Spools) reserve(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes+n > s.limit || len(s.files) >= spoolFiles {
		if !s.dropOldest() {
			return ErrNoSpace
		}
	}
	s.bytes += n
	return nil
}

// dropOldest drops the least recently used of the files that nobody reads. It reports whether there
// was one. s.mu must be held.
func (s *Spools) dropOldest() bool {
	oldest := ""
	for key, text := range s.files {
		if text.readers == 0 && (oldest == "" || text.used < s.files[oldest].used) {
			oldest = key
		}
	}
	if oldest == "" {
		return false
	}
	text := s.files[oldest]
	delete(s.files, oldest)
	s.bytes -= text.Size
	text.Close() // nothing of it is needed any more
	return true
}

// NoSpace adds ErrNoSpace to the error of a full disk or quota. It returns other errors as they
// are.
func NoSpace(err error) error {
	if files.IsFull(err) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// documentRanges are a document's bytes, in memory or in a Spools. If the file is gone, it is
// written again.
type documentRanges struct {
	*TempFile // to be opened by spools, unless it is in memory
	spools    *Spools
	key       string
	write     func(context.Context, io.Writer) error
}

// OpenRange implements Ranges.
func (d documentRanges) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if d.InMemory() {
		return d.TempFile.OpenRange(ctx, off, n)
	}
	text, err := d.spools.open(ctx, d.key, d.write)
	if err != nil {
		return nil, err
	}
	if text.SHA256() != d.SHA256() {
		d.spools.release(text)
		return nil, fmt.Errorf("%s: written again it has other bytes", d.key)
	}
	return &spoolReader{io.NewSectionReader(text.file, off, n), sync.OnceFunc(func() { d.spools.release(text) })}, nil
}

// spoolReader reads a range of a file. Close releases it.
type spoolReader struct {
	io.Reader
	release func()
}

func (r *spoolReader) Close() error {
	r.release()
	return nil
}

// Text returns the file of a short text.
func Text(name, media string, modified time.Time, text []byte) *Entry {
	sum := sha256.Sum256(text)
	return textEntry(name, media, modified, int64(len(text)), hex.EncodeToString(sum[:]), Bytes(text))
}

func textEntry(name, media string, modified time.Time, size int64, sum string, text Ranges) *Entry {
	return &Entry{
		Node: Node{Name: name, Size: size, Modified: Seconds(modified), Type: media, SHA256: sum, ETag: `"` + sum[:32] + `"`},
		Open: func(context.Context) (Ranges, error) { return text, nil },
	}
}

// Document is a text that may be long. It is computed, and has the same bytes each time it is
// written.
type Document struct {
	Name     string
	Type     string // media type
	Modified time.Time
	Key      string // everything that the bytes depend on, besides Name

	// Write must not use anything that the caller of Entry releases.
	Write  func(context.Context, io.Writer) error
	Spools *Spools // keeps the bytes
}

// maxHeld is the size up to which the bytes of a document are kept in memory.
const maxHeld = 1 << 20

// Entry returns the file. It writes the document once to measure it, unless memo has its size and
// digest.
func (d *Document) Entry(ctx context.Context, memo *cache.Memo) (*Entry, error) {
	key := d.memoKey()
	known, ok := memo.Get(key)
	if !ok {
		text, err := d.Spools.open(ctx, key, d.Write)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		d.Spools.release(text)
		known = text.TempFile
		memo.Add(key, known, int64(text.body.Len())+512)
	}
	f := known.(*TempFile)
	return textEntry(d.Name, d.Type, d.Modified, f.Size, f.SHA256(), documentRanges{f, d.Spools, key, d.Write}), nil
}

// Known reports whether memo has the document's size and digest, so that Entry need not write it.
func (d *Document) Known(memo *cache.Memo) bool {
	_, known := memo.Get(d.memoKey())
	return known
}

func (d *Document) memoKey() string { return "document " + d.Key + " " + d.Name }

// TempFile takes bytes that are written once, and read afterwards as often as wanted: a text that
// takes long to write, an answer or a request's body. They are in memory up to a length, and beyond
// it in a temporary file without a name, which is deleted when nobody refers to it any more.
type TempFile struct {
	Size int64 // bytes written so far

	memory int64                  // length up to which they are in memory
	grow   func(size int64) error // see NewTempFile
	digest hash.Hash
	body   bytes.Buffer
	file   *os.File // nil: they are in memory
}

// NewTempFile returns an empty file, with up to so many bytes in memory. Unless grow is nil, it is
// called before each write beyond them, with the size after the write. Its error ends the writing.
func NewTempFile(memory int64, grow func(size int64) error) *TempFile {
	return &TempFile{memory: memory, grow: grow, digest: sha256.New()}
}

// Write implements io.Writer. It fails with ErrNoSpace if the disk is full, and with the error of
// grow.
func (f *TempFile) Write(p []byte) (int, error) {
	f.digest.Write(p)
	if f.Size += int64(len(p)); f.Size <= f.memory {
		return f.body.Write(p)
	}
	if f.grow != nil {
		if err := f.grow(f.Size); err != nil {
			return 0, err
		}
	}
	if f.file == nil {
		var err error
		if f.file, err = files.Nameless(""); err != nil {
			return 0, NoSpace(err)
		}
		if _, err := f.file.Write(f.body.Bytes()); err != nil {
			return 0, NoSpace(err)
		}
		f.body = bytes.Buffer{}
	}
	n, err := f.file.Write(p)
	return n, NoSpace(err)
}

// SHA256 returns the digest of what was written, in lower-case hexadecimal.
func (f *TempFile) SHA256() string { return hex.EncodeToString(f.digest.Sum(nil)) }

// InMemory reports whether no file was needed so far.
func (f *TempFile) InMemory() bool { return f.file == nil }

// Content returns a reader of what was written.
func (f *TempFile) Content() io.ReadSeeker {
	if f.file == nil {
		return bytes.NewReader(f.body.Bytes())
	}
	return io.NewSectionReader(f.file, 0, f.Size)
}

// OpenRange implements Ranges.
func (f *TempFile) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n < 0 || off > f.Size-n {
		return nil, fmt.Errorf("range of %d bytes at %d is outside %d", n, off, f.Size)
	}
	if f.file == nil {
		return Bytes(f.body.Bytes()).OpenRange(ctx, off, n)
	}
	return io.NopCloser(io.NewSectionReader(f.file, off, n)), nil
}

// Close deletes the file. Nothing may be read any more.
func (f *TempFile) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
