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

// Found is a batch in a file that came without a manifest.
type Found struct {
	Manifest  *wire.Manifest  // inferred
	Path      string          // of the batch: the upload, or what it was converted to
	Converted *foreign.Result // nil if the upload is a batch itself
}

// Drop deletes what was made of the upload, unless it was accepted. The upload itself stays.
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
// manifest: see inbox.InferManifest. A foreign WARC or tree of pages is first converted to a batch,
// in a file of its own: see package foreign.
//
// What is wrong with the file is a *inbox.Refusal, with ReasonTruncated if more bytes could help.
// Any other error may pass by itself.
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

// refusalOf turns a fault of a foreign file into a refusal. Other errors are returned as they are.
func refusalOf(err error) error {
	if fault := (*foreign.Error)(nil); errors.As(err, &fault) {
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
	if m.Generation <= 0 { // the batch was made under no known assignment
		if m.Generation, err = a.opt.Robots.CurrentGeneration(ctx); err != nil {
			return nil, fmt.Errorf("assignment: %w", err)
		}
	}
	if err := m.Check(); err != nil {
		return nil, inbox.RefuseManifest(m, wire.ReasonCorruptMember, err.Error())
	}
	return m, nil
}

// AcceptInferred is Accept for a batch without a manifest, with the one that Infer has made. A
// *inbox.Refusal with ReasonIDReuse says that the ID is used by a batch of other bytes. The file
// is then the caller's, who may give it to QuarantineFile.
func (a *Acceptor) AcceptInferred(ctx context.Context, up Upload, m *wire.Manifest) (fresh bool, err error) {
	unsigned, err := m.Unsigned()
	if err != nil {
		return false, err
	}
	up.Batch = m.Batch
	_, fresh, err = a.take(ctx, up, m, unsigned)
	return fresh, err
}

// QuarantineFile moves a file that came without a manifest and cannot be taken into the quarantine,
// under an ID of its own, so that it stands in no batch's way. Until it returns nil the file is the
// caller's, and QuarantineFile may be repeated. A file that the quarantine has already is not kept
// twice.
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
