package accept

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"sheaf/ingest/foreign"
	"sheaf/ingest/inbox"
	"sheaf/internal/stream"
	"sheaf/internal/wire"
)

// Found is the batch in a file that came without a manifest.
type Found struct {
	Manifest  *wire.Manifest  // inferred
	Path      string          // path of the batch: the upload, or the file that it was converted to
	Converted *foreign.Result // nil if the upload is a batch itself
}

// Drop deletes the converted file, if there is one and it was not accepted. The upload itself
// stays.
func (f *Found) Drop() error {
	if f.Converted == nil {
		return nil
	}
	if err := os.Remove(f.Path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Infer reads a file that came without a manifest to its end, verifies all of it, and makes the
// manifest: see inbox.InferManifest. A foreign file is first converted to a batch in a file of its
// own: see package foreign.
//
// If the file is wrong, the error is an *inbox.Refusal; its reason is ReasonTruncated if more bytes
// could help. Any other error may be temporary.
func (a *Acceptor) Infer(ctx context.Context, up Upload) (*Found, error) {
	return a.infer(ctx, up, ImportOptions{Hosts: a.opt.ForeignHosts})
}

func (a *Acceptor) infer(ctx context.Context, up Upload, opt ImportOptions) (*Found, error) {
	f, err := os.Open(up.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	kind, err := foreign.Is(ctx, f, opt.Lenient)
	if err != nil {
		return nil, refusalOf(err)
	}
	if kind != "" {
		return a.convert(ctx, up, f, opt)
	}
	m, err := a.inferBatch(ctx, up, f)
	if err != nil {
		return nil, err
	}
	return &Found{Manifest: m, Path: up.Path}, nil
}

// refusalOf turns an error about a foreign file into a refusal. It returns other errors unchanged.
func refusalOf(err error) error {
	if fault, ok := errors.AsType[*foreign.Error](err); ok {
		return &inbox.Refusal{Reason: fault.Reason, Detail: fault.Error()}
	}
	return err
}

// inferBatch is Infer for a file that is a batch.
func (a *Acceptor) inferBatch(ctx context.Context, up Upload, f *os.File) (*wire.Manifest, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	m, err := inbox.InferManifest(stream.UntilDone(ctx, f), up.Robot, a.opt.Limits)
	if err != nil {
		return nil, err
	}
	if m.Generation <= 0 { // the batch does not name an assignment
		if m.Generation, err = a.opt.Robots.CurrentGeneration(ctx); err != nil {
			return nil, fmt.Errorf("assignment: %w", err)
		}
	}
	if err := m.Check(); err != nil {
		return nil, inbox.RefuseManifest(m, wire.ReasonCorruptMember, err.Error())
	}
	return m, nil
}

// AcceptInferred is Accept for a batch without a manifest; m is the manifest that Infer has made.
// An *inbox.Refusal with ReasonIDReuse says that a batch with other bytes has the ID. The caller
// then still has the file, and may give it to QuarantineFile.
func (a *Acceptor) AcceptInferred(ctx context.Context, up Upload, m *wire.Manifest) (fresh bool, err error) {
	unsigned, err := m.Unsigned()
	if err != nil {
		return false, err
	}
	up.Batch = m.Batch
	_, fresh, err = a.take(ctx, up, m, unsigned)
	return fresh, err
}

// QuarantineFile quarantines a file without a manifest that cannot be accepted. The file gets an ID
// of its own, so that it blocks no batch. Until QuarantineFile returns nil, the caller still has
// the file and may repeat the call. A file that the quarantine already has is not kept twice.
func (a *Acceptor) QuarantineFile(ctx context.Context, up Upload, r *inbox.Refusal) error {
	size, sum, err := digest(ctx, up.Path)
	if err != nil {
		return err
	}
	if up.Batch.Robot() != up.Robot {
		up.Batch = wire.NewBatchID(up.Robot, a.opt.Now(), 0)
	}
	m := &wire.Manifest{Batch: up.Batch, Robot: up.Robot, Size: size, SHA256: sum, Inferred: true}
	return a.opt.Quarantine.PutFile(ctx, a.refused(m, up, sum, r), up.Path)
}
