package ingest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/wire"
)

// readAhead is how much of a batch is read, hashed and handed on at a time; the
// verifier makes a reader of its own where it is less.
const readAhead = 256 << 10

// views are the forms of each segment whose size and digest are taken once, here.
var views = []archive.ViewKind{archive.Members, archive.Single, archive.WARC, archive.Links}

// splitNext takes one batch from received to post-split or into quarantine.
func (i *Ingest) splitNext(ctx context.Context) (did bool, err error) {
	var b *Batch
	now := i.opt.Now()
	err = i.write(writeClaim, func() error { b, err = i.ledger.claim(ctx, i.presence.Name(), now, &i.opt.Limits); return err })
	if err == nil && b == nil {
		freed, err := i.ledger.freeDead(ctx, i.presence)
		return freed > 0, err
	}
	if err != nil {
		return false, err
	}
	if b.Entered.UnixMilli() == now.UnixMilli() { // by this claim
		i.moved(b, wire.StateReceived, wire.StatePreSplit, "")
	}
	i.log.Info("splitting batch", "batch", b.Batch, "attempt", b.Attempt)
	start := time.Now()
	held, stop := i.hold(ctx, b)
	err = i.split(held, b)
	stop()
	var refusal *Refusal
	switch {
	case err == nil:
		i.log.Info("batch split", "batch", b.Batch, "bytes", b.Size, "hosts", b.Hosts, "took", time.Since(start))
		i.moved(b, wire.StatePreSplit, wire.StatePostSplit, "")
		wake(i.publishWake)
		return true, nil
	case errors.Is(err, errLost) || errors.Is(context.Cause(held), errLost):
		i.log.Warn("batch was taken over by another process", "batch", b.Batch, "attempt", b.Attempt)
		return true, nil
	case errors.As(err, &refusal):
		err = i.quarantine(ctx, b, refusal)
	default:
		err = i.postpone(ctx, b, err)
	}
	if err != nil {
		i.free(ctx, b)
	}
	return true, err
}

// quarantine ends the way of a batch that is wrong. The row comes first: it is
// what stops the batch; the move is repeated by recover.
func (i *Ingest) quarantine(ctx context.Context, b *Batch, r *Refusal) error {
	i.deciding.Lock()
	defer i.deciding.Unlock()
	if err := i.write(writeQuarantine, func() error { return i.ledger.quarantine(ctx, b, r, i.opt.Now()) }); err != nil {
		return err
	}
	i.log.Warn("batch quarantined", "batch", b.Batch, "robot", b.Robot, "reason", r.Reason, "detail", r.Detail)
	i.moved(b, wire.StatePreSplit, wire.StateQuarantined, r.Reason)
	b.Reason, b.Detail = r.Reason, r.Detail
	return i.moveAside(b)
}

// postpone gives a batch back, to be tried again later while others go on. It
// does so also when ctx has ended: that is no failure of the batch.
func (i *Ingest) postpone(ctx context.Context, b *Batch, cause error) error {
	wait := i.opt.Limits.backoff(b.Failures + 1)
	if ctx.Err() != nil {
		return ctx.Err() // no failure of the batch: the next Run claims it
	}
	i.log.Error("splitting a batch failed and will be repeated", "batch", b.Batch, "in", wait, "err", cause)
	until := i.opt.Now().Add(wait)
	err := i.write(writeFailure, func() error { return i.ledger.postpone(ctx, b, until, cause) })
	if errors.Is(err, errLost) {
		return nil
	}
	time.AfterFunc(wait, func() { wake(i.splitWake) })
	return err
}

// split verifies the batch and stores its hosts, all in one reading of the file.
// A *Refusal says what is wrong with the batch; any other error may pass.
func (i *Ingest) split(ctx context.Context, b *Batch) error {
	m, _, err := i.manifest(b)
	if err != nil {
		return err
	}
	if err := i.judge(ctx, b, m); err != nil {
		return err
	}
	f, err := os.Open(i.buffers.file(b.ID))
	if err != nil {
		return err
	}
	defer f.Close()

	plan := i.opt.Packs.plan(m, func(n int) string { return i.packKey(b, m.Created, n) })
	in := &input{r: io.LimitReader(f, m.Size+1), hash: sha256.New(), ahead: bufio.NewReaderSize(nil, readAhead)}
	wrong := i.splitHosts(ctx, b, m, plan, in)
	var refusal *Refusal
	if wrong != nil && !errors.As(wrong, &refusal) {
		return wrong
	}
	// Whatever is wrong with a part, the digest of the whole tells a batch that
	// was damaged on its way from one that was made so.
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	if sum := hex.EncodeToString(in.hash.Sum(nil)); sum != m.SHA256 {
		detail := fmt.Sprintf("offset 0 (batch.tar.gz): the batch has SHA-256 %s, its manifest says %s", sum, m.SHA256)
		if in.n != m.Size {
			detail = fmt.Sprintf("offset 0 (batch.tar.gz): the batch has %d bytes, its manifest says %d", in.n, m.Size)
		}
		if refusal != nil {
			detail += "; first fault: " + refusal.Detail
		}
		return &Refusal{wire.ReasonSHAMismatch, detail}
	}
	if refusal != nil {
		return refusal
	}
	for _, p := range plan.packs {
		if err := i.write(writeStage, func() error { return i.opt.Store.Put(ctx, p.object, &packReader{batch: f, pack: p}, p.size) }); err != nil {
			return fmt.Errorf("store %s: %w", p.object, err)
		}
	}
	if err := i.noteCopies(ctx, b, m, f); err != nil {
		return err
	}
	return i.write(writeSplit, func() error { return i.ledger.split(ctx, b, i.opt.Now()) })
}

// judge asks what can be asked before anything is read.
func (i *Ingest) judge(ctx context.Context, b *Batch, m *wire.Manifest) error {
	if ahead := m.Created.Sub(b.Received); ahead > i.opt.Limits.ClockSkew && !b.waives(wire.ReasonClock) {
		return &Refusal{wire.ReasonClock, fmt.Sprintf("offset %d (_batch/manifest.json): the manifest was created at %s, %s after it was received; set the robot's clock", tailOf(m), m.Created.Format(time.RFC3339), ahead.Round(time.Second))}
	}
	if b.waives(wire.ReasonHostNotAssigned) || b.Robot == ImportRobot {
		return nil
	}
	hosts := make([]string, len(m.Hosts))
	for n, h := range m.Hosts {
		hosts[n] = h.Name
	}
	foreign, err := i.opt.Robots.NotAssigned(ctx, b.Robot, m.Generation, hosts)
	if err != nil {
		return fmt.Errorf("assignment of robot %s: %w", b.Robot, err)
	}
	if len(foreign) > 0 {
		first := slices.IndexFunc(m.Hosts, func(h wire.Host) bool { return h.Name == foreign[0] })
		return &Refusal{wire.ReasonHostNotAssigned, fmt.Sprintf("offset %d (%s): not robot %s's in generation %d: %s", m.Hosts[max(first, 0)].Offset, foreign[0], b.Robot, m.Generation, someOf(foreign))}
	}
	return nil
}

// tailOf is where the manifest's copy begins in the batch.
func tailOf(m *wire.Manifest) int64 {
	if len(m.Hosts) == 0 {
		return 0
	}
	last := m.Hosts[len(m.Hosts)-1]
	return last.Offset + last.Length
}

func someOf(hosts []string) string {
	const few = 5
	if len(hosts) <= few {
		return strings.Join(hosts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(hosts[:few], ", "), len(hosts)-few)
}

// stagedAtOnce is how many lines are staged in one transaction. A crash loses
// nothing by it: the next attempt stages all of them anew.
const stagedAtOnce = 200

// splitHosts verifies and stores host after host and stages their lines, then
// checks how the batch ends. Hosts that go into packs are not stored yet.
func (i *Ingest) splitHosts(ctx context.Context, b *Batch, m *wire.Manifest, plan *packing, in *input) error {
	var lines []catalog.Line
	for n, h := range m.Hosts {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := i.splitHost(ctx, b, m, h, plan.places[n], in)
		if err != nil {
			return err
		}
		if lines = append(lines, line); len(lines) < stagedAtOnce && n < len(m.Hosts)-1 {
			continue
		}
		if err := i.write(writeStaged, func() error { return i.ledger.stage(ctx, b, lines) }); err != nil {
			return err
		}
		lines = lines[:0]
	}
	tailAt := in.n
	tail, err := archive.VerifyBatchTail(bufio.NewReader(in))
	switch {
	case in.err != nil:
		return in.err
	case err != nil:
		return refusalOf(err, tailAt, "_batch/manifest.json")
	}
	return sameManifest(tail, m, tailAt)
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

// splitHost verifies one host's range. A host without a place in a pack is stored
// by the same reading: the same bytes go to the store, and nothing is kept there
// unless they are right to the end.
func (i *Ingest) splitHost(ctx context.Context, b *Batch, m *wire.Manifest, h wire.Host, to *place, in *input) (catalog.Line, error) {
	if to != nil {
		sum, err := i.verify(b, h, in, io.Discard)
		if err != nil {
			return catalog.Line{}, err
		}
		to.end, to.sha256 = sum.EndMember(), sum.SHA256
		return lineOf(b, h, sum, to.object, to.at), nil
	}
	object := i.objectKey(b, m, h)
	var sum *archive.Summary
	err := i.write(writeStage, func() (err error) {
		out := i.put(ctx, object, sealedSize(&h))
		sum, err = i.verify(b, h, in, out)
		if err == nil {
			_, err = out.Write(sum.EndMember())
		}
		perr := out.finish(err)
		switch {
		case in.err != nil: // of our own disk: neither batch nor store is to blame
			return in.err
		case out.failed || err == nil && perr != nil:
			return fmt.Errorf("store %s: %w", object, perr)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		return err
	})
	if err != nil {
		return catalog.Line{}, err
	}
	return lineOf(b, h, sum, object, 0), nil
}

// verify reads one host's range, copies it to out as it goes by, and compares it
// with the manifest. What is wrong with the batch is a *Refusal.
func (i *Ingest) verify(b *Batch, h wire.Host, in *input, out io.Writer) (*archive.Summary, error) {
	at := in.n
	opt := archive.VerifyOptions{Host: h.Name, MaxRatio: i.opt.Limits.MaxRatio, MaxBody: i.opt.Limits.MaxBody, Views: views}
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

// lineOf describes a verified host's segment.
func lineOf(b *Batch, h wire.Host, sum *archive.Summary, object string, at int64) catalog.Line {
	line := catalog.Line{
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

// objectKey names what an attempt stores of one host.
func (i *Ingest) objectKey(b *Batch, m *wire.Manifest, h wire.Host) string {
	crawled := h.First
	if crawled.IsZero() {
		crawled = m.Created
	}
	return fmt.Sprintf("segments/%s/%s-%s-%d.tar.gz", archive.HostPath(h.Name), crawled.In(i.opt.Zone).Format("20060102"), b.Batch, b.Attempt)
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
	return &Refusal{fault.Code, placed.Error()}
}

// input is a batch file being read: hashed and counted as it goes by. It keeps
// the first error of the disk, so that this is never taken for one of the batch.
type input struct {
	r    io.Reader
	hash hash.Hash
	n    int64
	err  error

	ahead *bufio.Reader // of one host after the other: the verifier's own would be made anew for each
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.r.Read(p)
	in.hash.Write(p[:n])
	in.n += int64(n)
	if err != nil && err != io.EOF && in.err == nil {
		in.err = err
	}
	return n, err
}

// output is an object on its way into the store. failed says that the store gave
// up before the writer did.
type output struct {
	*io.PipeWriter
	done   chan error
	failed bool
}

// put begins to store an object of the given size from what is written.
func (i *Ingest) put(ctx context.Context, key string, size int64) *output {
	r, w := io.Pipe()
	out := &output{PipeWriter: w, done: make(chan error, 1)}
	go func() {
		err := i.opt.Store.Put(ctx, key, r, size)
		r.CloseWithError(err) // nil: nothing is written any more
		out.done <- err
	}()
	return out
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.PipeWriter.Write(p)
	o.failed = o.failed || err != nil
	return n, err
}

// finish ends the object, whole where cause is nil and not at all otherwise, and
// waits for what the store says.
func (o *output) finish(cause error) error {
	o.CloseWithError(cause)
	return <-o.done
}
