package inbox

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
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

// Refusal says what is permanently wrong with a batch. Sending the same bytes again will not help.
type Refusal struct {
	Reason wire.Reason
	Detail string
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Detail }

// OneHost refuses one host of a batch, for example because it inflates to too much. The batch's
// other hosts can be accepted.
type OneHost struct{ *Refusal }

func (e *OneHost) Unwrap() error { return e.Refusal }

// manifestEntry is the name of the manifest's copy inside a batch.
const manifestEntry = "_batch/manifest.json"

// RefuseManifest returns a refusal that names the manifest's copy as the place of the fault.
func RefuseManifest(m *wire.Manifest, reason wire.Reason, why string) *Refusal {
	at := int64(0)
	if len(m.Hosts) > 0 {
		last := m.Hosts[len(m.Hosts)-1]
		at = last.Offset + last.Length
	}
	return refuseManifestAt(at, reason, why)
}

func refuseManifestAt(at int64, reason wire.Reason, why string) *Refusal {
	return &Refusal{reason, fmt.Sprintf("offset %d (%s): %s", at, manifestEntry, why)}
}

// sameManifest compares the manifest's copy inside the batch, at an offset, with the manifest that
// came with the batch. Of an inferred manifest it compares only the hosts, because the other fields
// come from the copy.
func sameManifest(tail []byte, m *wire.Manifest, at int64) error {
	var inner wire.Manifest
	if err := json.Unmarshal(tail, &inner); err != nil {
		return refuseManifestAt(at, wire.ReasonCorruptMember, err.Error())
	}
	if m.Inferred {
		inner, m = wire.Manifest{Hosts: slices.Concat(inner.Hosts)}, &wire.Manifest{Hosts: slices.Concat(m.Hosts)}
	}
	have, err := innerOf(&inner)
	if err != nil {
		return err
	}
	want, err := innerOf(m)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, want) {
		return refuseManifestAt(at, wire.ReasonSHAMismatch, "the manifest inside the batch is not the one that came with it")
	}
	return nil
}

// innerOf returns the manifest as the copy inside the batch has it: without size and digest.
func innerOf(m *wire.Manifest) ([]byte, error) {
	inner := *m
	inner.Size, inner.SHA256 = 0, ""
	return json.Marshal(inner)
}

// refusalOf turns a format error of the verifier into a refusal. at and part say where in the batch
// the verified part begins. It returns other errors unchanged.
func refusalOf(err error, at int64, part string) error {
	var fault *archive.FormatError
	if !errors.As(err, &fault) {
		return err
	}
	placed := *fault
	placed.Offset += at
	placed.Entry = cmp.Or(placed.Entry, part)
	refusal := &Refusal{fault.Code, placed.Error()}
	if fault.Excess {
		return &OneHost{refusal}
	}
	return refusal
}

// InferManifest verifies a batch that came without a manifest and returns the manifest that it
// should have come with. Hosts, ranges, counts and digests are those found in the file. The copy of
// the manifest inside must agree with them, and gives the other fields. If the copy does not name
// this robot, the batch gets an ID made from its content, so the same file is the same batch again.
// The caller must set the generation if it is missing, and check the manifest.
//
// If the batch is wrong, the error is a *Refusal; its reason is ReasonTruncated if more bytes could
// help.
func InferManifest(r io.Reader, robot string, limits Limits) (*wire.Manifest, error) {
	in := &input{r: r, hash: sha256.New()}
	var hosts []wire.Host
	end := int64(0)
	opt := archive.VerifyOptions{Grace: limits.Grace, MaxBody: limits.MaxBody}
	inner, err := archive.VerifyBatch(in, opt, func(s *archive.Summary) error {
		hosts = append(hosts, wire.Host{
			Name: s.Host, Offset: end, Length: s.RangeSize, SHA256: s.RangeSHA256,
			Records: s.Records, Revisits: s.Revisits, First: s.First, Last: s.Last,
		})
		end += s.RangeSize
		return nil
	})
	switch {
	case in.err != nil:
		return nil, in.err
	case err != nil:
		return nil, refusalOf(err, 0, "batch.tar.gz")
	}
	m := new(wire.Manifest)
	if err := json.Unmarshal(inner, m); err != nil {
		return nil, refuseManifestAt(end, wire.ReasonCorruptMember, err.Error())
	}
	if err := sameManifest(inner, &wire.Manifest{Hosts: hosts, Inferred: true}, end); err != nil {
		return nil, err
	}
	m.Hosts, m.Inferred, m.Size, m.SHA256, m.Collection = hosts, true, in.n, in.sha256(), wire.Collection{}
	if m.Robot != robot || m.Batch.Robot() != robot {
		const most = 1_000_000_000 // a batch ID's number has at most nine digits
		digest := binary.BigEndian.Uint64(in.hash.Sum(nil))
		m.Robot, m.Batch = robot, wire.NewBatchID(robot, m.Created, int64(digest%most))
	}
	return m, nil
}
