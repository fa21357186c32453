package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"sheaf/archive"
	"sheaf/ingest/foreign"
	"sheaf/internal/wire"
)

// Found is a batch in a file that came without a manifest.
type Found struct {
	Manifest  *wire.Manifest  // the one that it should have come with
	Path      string          // of the batch: the upload's own, or what was made of it
	Converted *foreign.Result // nil where the file is a batch itself
}

// Drop removes what was made of the upload and not taken. The upload itself stays.
func (f *Found) Drop() error {
	if f.Converted == nil {
		return nil
	}
	if err := os.Remove(f.Path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Infer reads a file that came without a manifest to its end, checks
// everything in it, and writes the manifest that it should have come with. A foreign WARC or
// tree of pages is made a batch first, in a file of its own: see package foreign. Hosts,
// ranges, counts and digests are those that were found; the copy inside must agree with
// them, and gives the rest. A batch whose copy names another robot's ID, or none,
// gets one that its content decides, so the same file is the same batch again.
//
// What is wrong with the file is a *Refusal, with ReasonTruncated where more bytes
// could mend it; any other error may pass by itself.
func (i *Ingest) Infer(ctx context.Context, up Upload) (*Found, error) {
	return i.infer(ctx, up, i.opt.ForeignHosts)
}

func (i *Ingest) infer(ctx context.Context, up Upload, hosts foreign.HostMap) (*Found, error) {
	f, err := os.Open(up.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	kind, err := foreign.Is(ctx, f)
	var fault *foreign.Error
	switch {
	case errors.As(err, &fault):
		return nil, &Refusal{fault.Reason, fault.Error()}
	case err != nil:
		return nil, err
	case kind != "":
		return i.convert(ctx, up, f, hosts)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	m, err := i.inferBatch(ctx, up, f)
	if err != nil {
		return nil, err
	}
	return &Found{Manifest: m, Path: up.Path}, nil
}

// inferBatch is Infer for a file that is a batch.
func (i *Ingest) inferBatch(ctx context.Context, up Upload, f *os.File) (*wire.Manifest, error) {
	in := &input{r: &patient{ctx, f}, hash: sha256.New()}
	var hosts []wire.Host
	end := int64(0)
	opt := archive.VerifyOptions{MaxRatio: i.opt.Limits.MaxRatio, Grace: i.opt.Limits.Grace, MaxBody: i.opt.Limits.MaxBody}
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
		return nil, &Refusal{wire.ReasonCorruptMember, fmt.Sprintf("offset %d (_batch/manifest.json): %v", end, err)}
	}
	found := wire.Manifest{Hosts: hosts, Inferred: true}
	if err := sameManifest(inner, &found, end); err != nil {
		return nil, err
	}
	m.Hosts, m.Inferred, m.Size, m.SHA256 = hosts, true, in.n, hex.EncodeToString(in.hash.Sum(nil))
	if m.Robot != up.Robot || Owner(m.Batch) != up.Robot {
		m.Robot, m.Batch = up.Robot, contentID(up.Robot, m, in.hash)
	}
	if m.Generation <= 0 { // made under no assignment that it knew of
		if m.Generation, err = i.opt.Robots.CurrentGeneration(ctx); err != nil {
			return nil, fmt.Errorf("assignment: %w", err)
		}
	}
	if err := m.Check(); err != nil {
		return nil, &Refusal{wire.ReasonCorruptMember, fmt.Sprintf("offset %d (_batch/manifest.json): %v", end, err)}
	}
	return m, nil
}

// contentID names a batch by what is in it: when it was made, and its digest.
func contentID(robot string, m *wire.Manifest, h hash.Hash) wire.BatchID {
	const most = 1_000_000_000 // a batch ID's number has at most nine digits
	return wire.NewBatchID(robot, m.Created, int64(binary.BigEndian.Uint64(h.Sum(nil))%most))
}

// AcceptInferred is Accept for a batch without a manifest, with what Infer has
// given for it. ReasonIDReuse is returned for another's content under a used ID;
// the newcomer is then the caller's to Keep.
func (i *Ingest) AcceptInferred(ctx context.Context, up Upload, m *wire.Manifest) (fresh bool, err error) {
	unsigned, err := m.Unsigned()
	if err != nil {
		return false, err
	}
	up.Batch = m.Batch
	_, fresh, err = i.take(ctx, up, m, unsigned)
	return fresh, err
}

// Keep puts a file that came without a manifest and cannot be taken into the
// quarantine, under an ID of its own, so that it stands in no batch's way. There is nobody who
// would send it again, so the row goes first: until the file has moved it is the receiver's, and
// Keep may be repeated. A file that lies there already is not kept twice.
func (i *Ingest) Keep(ctx context.Context, up Upload, r *Refusal) error {
	size, sum, err := digestOf(ctx, up.Path)
	if err != nil {
		return err
	}
	i.deciding.Lock()
	defer i.deciding.Unlock()
	b, err := i.ledger.kept(ctx, up.Robot, sum)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if b == nil {
		now := i.opt.Now()
		if Owner(up.Batch) != up.Robot {
			up.Batch = wire.NewBatchID(up.Robot, now, 0)
		}
		b = rowOf(&wire.Manifest{Batch: up.Batch, Robot: up.Robot, Size: size, SHA256: sum, Inferred: true}, up, now)
		b.ID += "+" + sum[:12]
		b.State, b.Reason, b.Detail = wire.StateQuarantined, r.Reason, r.Detail
		if err := i.write(writeKeep, func() error { return i.ledger.enter(ctx, b) }); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		i.log.Warn("a file without manifest is quarantined", "batch", b.ID, "robot", b.Robot, "reason", r.Reason, "detail", r.Detail)
		i.opt.Observe(Move{Batch: b.Batch, Robot: b.Robot, To: b.State, Reason: b.Reason, Bytes: b.Size})
	}
	if b.Decision == Discarded || exists(i.buffers.quarantine(b.ID)) {
		return nil
	}
	if err := i.write(writePlace, func() error { return i.buffers.place(b.ID, up.Path, nil) }); err != nil {
		return err
	}
	return i.moveAside(b)
}

// kept gives the row under which a robot's file without manifest was quarantined by Keep.
func (l *ledger) kept(ctx context.Context, robot, sha256 string) (*Batch, error) {
	list, err := l.query(ctx, `SELECT `+columns+` FROM ingest_batches
		WHERE state = 'quarantined' AND robot = ? AND sha256 = ? AND inferred = 1 AND id <> batch`, robot, sha256)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

func digestOf(ctx context.Context, path string) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, &patient{ctx, f})
	return size, hex.EncodeToString(h.Sum(nil)), err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// patient reads until its context ends: files may be large.
type patient struct {
	ctx context.Context
	r   io.Reader
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}
