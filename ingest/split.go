package ingest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/wire"
)

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
		if b.Express {
			i.urgent.Store(true)
		}
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
	others, err := i.otherRecords(ctx, b.Batch)
	if err != nil {
		return err
	}
	left, wrong := i.splitHosts(ctx, b, m, plan, others, in)
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
	if err := i.noteCopies(ctx, b, m, left, f); err != nil {
		return err
	}
	for _, l := range left {
		i.log.Warn("host left out of a batch", "batch", b.Batch, "robot", b.Robot, "host", l.host, "reason", l.Reason, "detail", l.Detail)
	}
	return i.write(writeSplit, func() error { return i.ledger.split(ctx, b, left.String(), i.opt.Now()) })
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
// checks how the batch ends. Hosts that go into packs are not stored yet. It returns
// the hosts that are left out because there is too much of them.
func (i *Ingest) splitHosts(ctx context.Context, b *Batch, m *wire.Manifest, plan *packing, others map[string]catalog.View, in *input) (left leftOut, err error) {
	var lines []catalog.SegmentEntry
	stage := func() error {
		if len(lines) == 0 {
			return nil
		}
		err := i.write(writeStaged, func() error { return i.ledger.stage(ctx, b, lines) })
		lines = lines[:0]
		return err
	}
	for n, h := range m.Hosts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		end := in.n + h.Length
		line, err := i.splitHost(ctx, b, m, h, plan.places[n], in)
		if left.add(h.Name, len(m.Hosts), err) {
			if plan.places[n] != nil {
				plan.places[n].left = true
			}
			if err := in.skip(end); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if view, ok := others[h.Name]; ok {
			line.Views[wire.ViewOthers] = view
		}
		if lines = append(lines, line); len(lines) < stagedAtOnce {
			continue
		}
		if err := stage(); err != nil {
			return nil, err
		}
	}
	if err := stage(); err != nil {
		return nil, err
	}
	tailAt := in.n
	tail, err := archive.VerifyBatchTail(bufio.NewReader(in))
	switch {
	case in.err != nil:
		return nil, in.err
	case err != nil:
		return nil, refusalOf(err, tailAt, "_batch/manifest.json")
	}
	return left, sameManifest(tail, m, tailAt)
}

// splitHost verifies one host's range. A host without a place in a pack is stored
// by the same reading: the same bytes go to the store, and nothing is kept there
// unless they are right to the end.
func (i *Ingest) splitHost(ctx context.Context, b *Batch, m *wire.Manifest, h wire.Host, to *place, in *input) (catalog.SegmentEntry, error) {
	if to != nil {
		sum, err := i.verify(b, h, in, io.Discard)
		if err != nil {
			return catalog.SegmentEntry{}, err
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
		return catalog.SegmentEntry{}, err
	}
	return lineOf(b, h, sum, object, 0), nil
}

// objectKey names what an attempt stores of one host.
func (i *Ingest) objectKey(b *Batch, m *wire.Manifest, h wire.Host) string {
	crawled := h.First
	if crawled.IsZero() {
		crawled = m.Created
	}
	return fmt.Sprintf("segments/%s/%s-%s-%d.tar.gz", archive.HostPath(h.Name), crawled.In(i.opt.Zone).Format("20060102"), b.Batch, b.Attempt)
}
