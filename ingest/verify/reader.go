package verify

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"time"

	"sheaf/archive"
	"sheaf/internal/wire"
)

// Limits bound what pages may inflate to. Zero values take the defaults of archive.VerifyOptions.
type Limits struct {
	Grace   int64 // inflated bytes of a host's part that may pass the ratio
	MaxBody int64 // inflated bytes of one page
}

// readAhead is how much of a batch is read, hashed and passed on at a time, in bytes. The verifier
// makes a reader of its own if it is less.
const readAhead = 256 << 10

// views are the forms of each segment whose sizes and digests are computed while it is read.
var views = []archive.ViewKind{archive.Members, archive.Single, archive.WARC, archive.Links}

// Reader reads a batch file once, from its start: it verifies host after host, hashes and counts.
// It keeps the first error of the file itself, so that this is never taken for a fault of the
// batch.
type Reader struct {
	r      io.Reader
	limits Limits
	hash   hash.Hash
	n      int64
	err    error

	ahead *bufio.Reader // used for all hosts: the verifier would make one for each
}

// NewReader returns a Reader of a batch file.
func NewReader(r io.Reader, limits Limits) *Reader {
	return &Reader{r: r, limits: limits, hash: sha256.New(), ahead: bufio.NewReaderSize(nil, readAhead)}
}

// Read implements io.Reader.
func (in *Reader) Read(p []byte) (int, error) {
	n, err := in.r.Read(p)
	in.hash.Write(p[:n])
	in.n += int64(n)
	if err != nil && err != io.EOF && in.err == nil {
		in.err = err
	}
	return n, err
}

// Err returns the first error of the file.
func (in *Reader) Err() error { return in.err }

func (in *Reader) sha256() string { return hex.EncodeToString(in.hash.Sum(nil)) }

// Host verifies the next host's range, copies it to out at the same time, and compares it with the
// manifest. No record may be later than latest, unless that is zero. What is wrong with the batch
// is a *Refusal, or *Excess if only the amount is wrong.
func (in *Reader) Host(h wire.Host, latest time.Time, out io.Writer) (*archive.Summary, error) {
	at := in.n
	in.ahead.Reset(io.TeeReader(io.LimitReader(in, h.Length), out))
	sum, err := archive.VerifyRange(in.ahead, archive.VerifyOptions{
		Host: h.Name, Latest: latest, Grace: in.limits.Grace, MaxBody: in.limits.MaxBody, Views: views,
	})
	switch {
	case in.err != nil:
		return nil, in.err
	case err != nil:
		return nil, refusalOf(err, at, h.Name)
	case sum.RangeSHA256 != h.SHA256:
		return nil, &Refusal{wire.ReasonSHAMismatch, fmt.Sprintf("offset %d (%s): its %d bytes have SHA-256 %s, the manifest says %s", h.Offset, h.Name, h.Length, sum.RangeSHA256, h.SHA256)}
	case sum.Records != h.Records || sum.Revisits != h.Revisits:
		return nil, &Refusal{wire.ReasonSHAMismatch, fmt.Sprintf("offset %d (%s): holds %d records, %d revisits; the manifest says %d and %d", h.Offset, h.Name, sum.Records, sum.Revisits, h.Records, h.Revisits)}
	}
	return sum, nil
}

// Skip reads on to the end of a host.
func (in *Reader) Skip(h wire.Host) error {
	if _, err := io.CopyN(io.Discard, in, h.Offset+h.Length-in.n); err != nil && err != io.EOF {
		return err
	}
	return nil // if the file ends before, the verifier of what follows finds out
}

// Tail verifies how the batch ends behind its hosts, and compares the copy of the manifest there.
func (in *Reader) Tail(m *wire.Manifest) error {
	at := in.n
	tail, err := archive.VerifyBatchTail(bufio.NewReader(in))
	switch {
	case in.err != nil:
		return in.err
	case err != nil:
		return refusalOf(err, at, manifestEntry)
	}
	return sameManifest(tail, m, at)
}

// Digest reads on to the end and compares the whole file with the manifest. If the digest is wrong,
// the batch was damaged after it was made, whatever else was found: first is that, or nil.
func (in *Reader) Digest(m *wire.Manifest, first *Refusal) error {
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	sum := in.sha256()
	if sum == m.SHA256 {
		if first != nil {
			return first
		}
		return nil
	}
	detail := fmt.Sprintf("offset 0 (batch.tar.gz): the batch has SHA-256 %s, its manifest says %s", sum, m.SHA256)
	if in.n != m.Size {
		detail = fmt.Sprintf("offset 0 (batch.tar.gz): the batch has %d bytes, its manifest says %d", in.n, m.Size)
	}
	if first != nil {
		detail += "; first fault: " + first.Detail
	}
	return &Refusal{wire.ReasonSHAMismatch, detail}
}
