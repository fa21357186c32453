package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/wire"
)

// readAhead is how much of a batch is read, hashed and handed on at a time; the
// verifier makes a reader of its own where it is less.
const readAhead = 256 << 10

// views are the forms of each segment whose size and digest are taken once, here.
var views = []archive.ViewKind{archive.Members, archive.Single, archive.WARC, archive.Links}

// verify reads one host's range, copies it to out as it goes by, and compares it
// with the manifest. What is wrong with the batch is a *Refusal.
func (i *Ingest) verify(b *Batch, h wire.Host, in *input, out io.Writer) (*archive.Summary, error) {
	at := in.n
	opt := archive.VerifyOptions{Host: h.Name, MaxRatio: i.opt.Limits.MaxRatio, Grace: i.opt.Limits.Grace, MaxBody: i.opt.Limits.MaxBody, Views: views}
	if !b.waives(wire.ReasonClock) {
		opt.Latest = b.Received.Add(i.opt.Limits.ClockSkew)
	}
	in.ahead.Reset(io.TeeReader(io.LimitReader(in, h.Length), out))
	sum, err := archive.VerifyRange(in.ahead, opt)
	switch {
	case in.err != nil:
		return nil, in.err
	case err != nil:
		return nil, refusalOf(err, at, h.Name)
	}
	return sum, agrees(sum, h)
}

// agrees compares what the verifier found with what the manifest says.
func agrees(sum *archive.Summary, h wire.Host) error {
	switch {
	case sum.RangeSHA256 != h.SHA256:
		return &Refusal{wire.ReasonSHAMismatch, fmt.Sprintf("offset %d (%s): its %d bytes have SHA-256 %s, the manifest says %s", h.Offset, h.Name, h.Length, sum.RangeSHA256, h.SHA256)}
	case sum.Records != h.Records || sum.Revisits != h.Revisits:
		return &Refusal{wire.ReasonSHAMismatch, fmt.Sprintf("offset %d (%s): holds %d records, %d revisits; the manifest says %d and %d", h.Offset, h.Name, sum.Records, sum.Revisits, h.Records, h.Revisits)}
	}
	return nil
}

// sameManifest compares the copy inside the batch with the signed manifest.
func sameManifest(tail []byte, m *wire.Manifest, at int64) error {
	var inner wire.Manifest
	if err := json.Unmarshal(tail, &inner); err != nil {
		return &Refusal{wire.ReasonCorruptMember, fmt.Sprintf("offset %d (_batch/manifest.json): %v", at, err)}
	}
	if m.Inferred { // from this very copy, but for the hosts
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
		return &Refusal{wire.ReasonSHAMismatch, fmt.Sprintf("offset %d (_batch/manifest.json): the manifest inside the batch is not the one that came with it", at)}
	}
	return nil
}

// refusalOf says where in the batch the verifier found a fault, given where in
// it the verified part begins. Errors that are no fault of the format stay as they are.
func refusalOf(err error, at int64, part string) error {
	var fault *archive.FormatError
	if !errors.As(err, &fault) {
		return err
	}
	placed := *fault
	placed.Offset += at
	if placed.Entry == "" {
		placed.Entry = part
	}
	refusal := &Refusal{fault.Code, placed.Error()}
	if fault.Excess {
		return &excess{refusal}
	}
	return refusal
}

// lineOf describes a verified host's segment.
func lineOf(b *Batch, h wire.Host, sum *archive.Summary, object string, at int64) catalog.SegmentEntry {
	line := catalog.SegmentEntry{
		Host: h.Name, Object: object, Offset: at, Length: sum.Size,
		IndexOffset: sum.IndexOffset, IndexLength: sum.IndexLength,
		First: sum.First, Last: sum.Last,
		Records: sum.Records, Revisits: sum.Revisits, Files: sum.Files,
		SHA256: sum.SHA256, Views: make(map[string]catalog.View, len(sum.Views)),
		Batch: string(b.Batch), BatchSHA256: b.SHA256, Robot: b.Robot,
	}
	for kind, v := range sum.Views {
		line.Views[string(kind)] = catalog.View{Size: v.Size, SHA256: v.SHA256, ETag: v.ETag}
	}
	return line
}
