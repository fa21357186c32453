package foreign

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"

	"sheaf/internal/display"
	"sheaf/internal/wire"
)

// Kind is the format of a foreign file.
type Kind string

const (
	WARC Kind = "warc"
	ARC  Kind = "arc"
	WACZ Kind = "wacz"
	Tree Kind = "tree" // a tar of page files
)

// input reads the inflated content of a file, from its beginning to its end.
type input struct {
	r     *bufio.Reader
	n     int64 // inflated bytes read
	disk  error // the first error of the disk or the context
	close func() error
	meter *meter
	parts *parts // of a leniently read file; nil: strict reading

	entries []*zip.File       // WARC files of a WACZ
	unread  Losses            // of a WACZ; see Result.Unread
	file    *io.SectionReader // the WACZ itself
}

// newInput returns an input without content for a file, and the file as a reader that stores errors
// of the disk and of the context in the input.
func newInput(ctx context.Context, file *os.File, limits Limits) (*input, *io.SectionReader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	s := &input{close: func() error { return nil }, meter: newMeter(limits, info.Size())}
	return s, io.NewSectionReader(readerAt{ctx, s, file}, 0, info.Size()), nil
}

// begin returns an input for a file, compressed or not.
func begin(ctx context.Context, file *os.File, limits Limits) (*input, error) {
	s, whole, err := newInput(ctx, file, limits)
	if err != nil {
		return nil, err
	}
	if s.close, err = s.unpack(ctx, bufio.NewReaderSize(whole, 256<<10)); err != nil {
		return nil, s.reading(err, "")
	}
	return s, nil
}

// unpack makes the input read raw, which may be in gzip, in Zstandard or uncompressed. The caller
// must call closeIt.
func (s *input) unpack(ctx context.Context, raw *bufio.Reader) (closeIt func() error, err error) {
	magic, err := raw.Peek(len(zstdMagic))
	if err != nil && err != io.EOF {
		return nil, err
	}
	var z io.ReadCloser
	switch {
	case isZstd(magic):
		z, err = newZstd(raw)
	case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
		z, err = gzip.NewReader(raw)
	default:
		s.r = bufio.NewReaderSize(raw, 64<<10)
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	s.r = bufio.NewReaderSize(inflated{ctx, s, z}, 64<<10)
	return z.Close, nil
}

// inflated reads the file's inflated content, which may be much larger than the file. It stores
// errors of the context in the input.
type inflated struct {
	ctx context.Context
	s   *input
	r   io.Reader
}

func (f inflated) Read(p []byte) (int, error) {
	if f.s.disk = cmp.Or(f.s.disk, f.ctx.Err()); f.s.disk != nil {
		return 0, f.s.disk
	}
	return f.r.Read(p)
}

// Read implements io.Reader, and counts the bytes.
func (s *input) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	return n, s.count(n, err)
}

// line reads a line of at most limit bytes, including its LF.
func (s *input) line(limit int) (string, error) {
	var line []byte
	for {
		part, err := s.r.ReadSlice('\n')
		line = append(line, part...)
		if cerr := s.count(len(part), nil); cerr != nil {
			return "", cerr
		}
		switch {
		case len(line) > limit:
			return "", fmt.Errorf("a line of more than %d bytes", limit)
		case err == bufio.ErrBufferFull:
			continue
		}
		return string(line), err
	}
}

// firstLine reads the first line of the next record without its end, and returns its offset, too.
// It skips empty lines before it: two end a record of a WARC and one a record of an ARC, but some
// writers wrote fewer or more. Behind the last record it returns io.EOF.
func (s *input) firstLine() (line string, at int64, err error) {
	for line == "" {
		at = s.n
		if line, err = s.line(maxLine); err == io.EOF && line == "" {
			return "", at, s.ended(err)
		} else if err != nil {
			return "", at, s.reading(err, "")
		}
		line = strings.TrimRight(line, "\r\n")
	}
	return line, at, nil
}

func (s *input) count(n int, err error) error {
	s.n += int64(n)
	if merr := s.meter.read(int64(n)); merr != nil {
		return wrong(s.n, "", wire.ReasonBombRatio, "%v", merr)
	}
	return err
}

// kind returns the kind of the file by its first bytes, or "" if it is no foreign file.
func (s *input) kind() (Kind, error) {
	const block = 512
	head, err := s.r.Peek(block)
	switch {
	case s.disk != nil:
		return "", s.disk
	case bytes.HasPrefix(head, []byte("WARC/")):
		return WARC, nil
	case bytes.HasPrefix(head, []byte(arcBegins)):
		return ARC, nil
	case len(head) == block && tarHeader(head):
		return Tree, nil
	case bytes.HasPrefix(head, []byte(waczBegins)):
		return WACZ, nil
	case err != nil && err != io.EOF:
		return "", s.reading(err, "")
	}
	return "", nil
}

// tarHeader reports whether the block has the checksum of a tar header (POSIX ustar and V7).
func tarHeader(block []byte) bool {
	const from, to = 148, 156 // of the checksum itself, which counts as spaces
	sum := int64(0)
	for i, c := range block {
		if from <= i && i < to {
			c = ' '
		}
		sum += int64(c)
	}
	var want int64
	for _, c := range bytes.Trim(block[from:to], " \x00") {
		if c < '0' || c > '7' {
			return false
		}
		want = want<<3 | int64(c-'0')
	}
	return sum == want && sum != 8*' '
}

// Limits bound the expansion of one file. In addition a file may expand to at most 200 times its
// own size, or 256 MiB if that is more.
type Limits struct {
	Bytes   int64 `mapstructure:"max_bytes" want:"above 0"`   // of the inflated file; and of the content that it stands for, which are holes of sparse files and decoded bodies; 0 is DefaultBytes
	Entries int64 `mapstructure:"max_entries" want:"above 0"` // entries of a tar, or records of a WARC; 0 is DefaultEntries
}

// Defaults of Limits.
const (
	DefaultBytes   = 256 << 30
	DefaultEntries = 10_000_000
)

const (
	maxRatio = 200       // bytes for each byte of the file
	minLimit = 256 << 20 // bytes that any file may expand to
)

// meter counts what a file expands to.
type meter struct {
	maxBytes   int64
	limit      string // the name of the limit in maxBytes
	maxEntries int64
	inflated   int64 // bytes of the inflated file
	content    int64 // bytes of holes and decoded bodies
	entries    int64
}

func newMeter(limits Limits, size int64) *meter {
	m := &meter{maxBytes: cmp.Or(limits.Bytes, DefaultBytes), limit: "import.max_bytes", maxEntries: cmp.Or(limits.Entries, DefaultEntries)}
	if ratio := max(size, minLimit/maxRatio) * maxRatio; ratio < m.maxBytes {
		m.maxBytes, m.limit = ratio, fmt.Sprintf("%d for each of its own", maxRatio)
	}
	return m
}

func (m *meter) over() error {
	if m.inflated > m.maxBytes || m.content > m.maxBytes {
		return fmt.Errorf("the file expands to more than %d bytes, the limit (%s)", m.maxBytes, m.limit)
	}
	return nil
}

// read counts bytes of the inflated file. It fails beyond the limit.
func (m *meter) read(n int64) error {
	m.inflated += n
	return m.over()
}

// made counts bytes that the inflated file does not have: holes of sparse files, and decoded
// bodies.
func (m *meter) made(n int64) error {
	m.content += min(n, m.maxBytes+1) // min keeps the sum from overflowing
	return m.over()
}

// room returns how many bytes of holes and decoded bodies may still come.
func (m *meter) room() int64 { return m.maxBytes - m.content }

// entry counts an entry or record. It fails beyond the limit.
func (m *meter) entry() error {
	if m.entries++; m.entries > m.maxEntries {
		return fmt.Errorf("the file holds more than %d entries, the limit (import.max_entries)", m.maxEntries)
	}
	return nil
}

// sparse reports whether a file in a tar may have holes. The tar does not contain the holes.
func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// Error says what is wrong with a foreign file, and where.
type Error struct {
	Offset int64       // in the inflated file
	Entry  string      // URL of the record, or name of the tar entry
	Reason wire.Reason // for the quarantine
	Msg    string
}

func (e *Error) Error() string {
	where := fmt.Sprintf("offset %d, inflated", e.Offset)
	if e.Entry != "" {
		where += fmt.Sprintf(" (%s)", display.Harmless(fmt.Sprintf("%.200s", e.Entry)))
	}
	return where + ": " + e.Msg
}

func wrong(offset int64, entry string, reason wire.Reason, format string, args ...any) *Error {
	return &Error{offset, entry, reason, fmt.Sprintf(format, args...)}
}

// reading turns a read error into an *Error if the file's content is at fault. It returns errors of
// the disk and of the context unchanged.
func (s *input) reading(err error, entry string) error {
	var known *Error
	var hole *gap
	var disk *fs.PathError
	switch {
	case s.disk != nil:
		return s.disk
	case err == nil:
		return nil
	case errors.As(err, &known), errors.As(err, &hole), errors.As(err, &disk), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return wrong(s.n, entry, wire.ReasonTruncated, "the file ends here, in the middle")
	}
	return wrong(s.n, entry, wire.ReasonCorruptMember, "%v", err)
}

// ended returns the error of the disk or the context, if any, or else err.
func (s *input) ended(err error) error {
	if s.disk != nil {
		return s.disk
	}
	return err
}

// whole returns err. But if err is a fault of the file, it first reads the rest. If the file turns
// out to be cut off, it returns that error instead, because the rest may still come.
func (s *input) whole(err error) error {
	var fault, cut *Error
	if !errors.As(err, &fault) || fault.Reason == wire.ReasonTruncated {
		return err
	}
	_, rerr := io.Copy(io.Discard, s)
	if rerr = s.reading(rerr, fault.Entry); s.disk != nil || errors.As(rerr, &cut) && cut.Reason == wire.ReasonTruncated {
		return rerr
	}
	return err
}
