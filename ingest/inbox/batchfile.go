package inbox

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"time"

	"sheaf/archive"
	"sheaf/internal/stream"
	"sheaf/internal/wire"
)

// Limits bound what pages may inflate to. Zero values take the defaults of archive.VerifyOptions.
type Limits struct {
	Grace   int64 // inflated bytes of a host's part that may exceed the ratio
	MaxBody int64 // inflated bytes of one page
}

// readAhead is how many bytes of a batch are read and hashed at a time.
const readAhead = 256 << 10

// views are the views of a segment that are measured and hashed while the segment is read.
// archive.Files is only measured.
var views = []archive.ViewKind{archive.Single, archive.Files, archive.WARC, archive.Links}

// BatchFile verifies a batch file: its hosts, its end, and its digest. Its methods may be
// called concurrently.
type BatchFile struct {
	r      io.ReaderAt
	m      *wire.Manifest
	limits Limits
}

// NewBatchFile returns a BatchFile of a batch with a valid manifest.
func NewBatchFile(r io.ReaderAt, m *wire.Manifest, limits Limits) *BatchFile {
	return &BatchFile{r, m, limits}
}

// input reads a batch file or a part of it, and counts the bytes. It keeps the file's first error,
// so that a read error is never taken for a fault of the batch.
type input struct {
	r    io.Reader
	hash hash.Hash // nil: no digest is wanted
	n    int64
	err  error
}

// part returns a reader of the bytes between two offsets.
func (f *BatchFile) part(from, to int64) *input {
	return &input{r: io.NewSectionReader(f.r, from, to-from)}
}

// Read implements io.Reader. It hashes and counts the bytes, and keeps the first error.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.r.Read(p)
	if in.hash != nil {
		in.hash.Write(p[:n])
	}
	in.n += int64(n)
	if err != nil && err != io.EOF && in.err == nil {
		in.err = err
	}
	return n, err
}

func (in *input) sha256() string { return hex.EncodeToString(in.hash.Sum(nil)) }

// Host verifies a host's range, copies it to out at the same time, and compares it with the
// manifest. No record may be later than latest, unless latest is zero. If the batch is wrong, the
// error is a *Refusal, or *OneHost if the fault concerns this host only.
func (f *BatchFile) Host(h wire.Host, latest time.Time, out io.Writer) (*archive.Summary, error) {
	in := f.part(h.Offset, h.Offset+h.Length)
	sum, err := archive.VerifyRange(io.TeeReader(in, out), archive.VerifyOptions{
		Host: h.Name, Latest: latest, Grace: f.limits.Grace, MaxBody: f.limits.MaxBody, Views: views,
	})
	switch {
	case in.err != nil:
		return nil, in.err
	case err != nil:
		return nil, refusalOf(err, h.Offset, h.Name)
	case sum.RangeSHA256 != h.SHA256:
		return nil, &Refusal{wire.ReasonSHAMismatch, fmt.Sprintf("offset %d (%s): its %d bytes have SHA-256 %s, the manifest says %s", h.Offset, h.Name, h.Length, sum.RangeSHA256, h.SHA256)}
	case sum.Records != h.Records || sum.Revisits != h.Revisits:
		return nil, &Refusal{wire.ReasonSHAMismatch, fmt.Sprintf("offset %d (%s): holds %d records, %d revisits; the manifest says %d and %d", h.Offset, h.Name, sum.Records, sum.Revisits, h.Records, h.Revisits)}
	}
	return sum, nil
}

// Tail verifies the end of the batch, behind its hosts, and compares the manifest's copy there with
// the manifest.
func (f *BatchFile) Tail() error {
	at := int64(0)
	if len(f.m.Hosts) > 0 {
		last := f.m.Hosts[len(f.m.Hosts)-1]
		at = last.Offset + last.Length
	}
	in := f.part(at, f.m.Size+1)
	tail, err := archive.VerifyBatchTail(bufio.NewReader(in))
	switch {
	case in.err != nil:
		return in.err
	case err != nil:
		return refusalOf(err, at, manifestEntry)
	}
	return sameManifest(tail, f.m, at)
}

// Digest returns the SHA-256 of the whole file, in hex, and its size. It reads at most one byte
// more than the batch should have.
func (f *BatchFile) Digest(ctx context.Context) (digest string, size int64, err error) {
	return wire.DigestOf(bufio.NewReaderSize(stream.UntilDone(ctx, f.part(0, f.m.Size+1)), readAhead))
}

// Compare compares the digest of the whole file with the manifest. If they agree, it returns first,
// an earlier refusal or nil. Otherwise the batch was damaged after it was made, and Compare returns
// a refusal that says so.
func (f *BatchFile) Compare(digest string, size int64, first *Refusal) error {
	if digest == f.m.SHA256 {
		if first != nil {
			return first
		}
		return nil
	}
	detail := fmt.Sprintf("offset 0 (batch.tar.gz): the batch has SHA-256 %s, its manifest says %s", digest, f.m.SHA256)
	if size != f.m.Size {
		detail = fmt.Sprintf("offset 0 (batch.tar.gz): the batch has %d bytes, its manifest says %d", size, f.m.Size)
	}
	if first != nil {
		detail += "; first fault: " + first.Detail
	}
	return &Refusal{wire.ReasonSHAMismatch, detail}
}
