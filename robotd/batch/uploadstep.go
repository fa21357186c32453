package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"sheaf/internal/wire"
)

// step asks for the batch's receipt, and sends the batch if the service does not have it. It
// reports whether the batch left the spool. It returns only errors of the spool, of Published and
// of Quarantined.
func (u *Uploader) step(ctx context.Context, b Spooled, p *progress) (gone bool, err error) {
	receipt, err := u.opt.Receipts.Receipt(ctx, b.ID, b.SHA256)
	if err == nil || errors.Is(err, ErrUnknown) {
		u.isBack(p)
	}
	if errors.Is(err, ErrUnknown) {
		if receipt = u.send(ctx, b, p); receipt == nil {
			return false, nil
		}
	} else if err != nil {
		p.due = u.backOff(ctx, &p.receipt, err, "batch", b.ID)
		p.failed = err.Error()
		return false, nil
	}
	p.known, p.failed, p.receipt = receipt.State, "", retry{}
	return u.obey(ctx, b, p, receipt)
}

// isBack is called when the service has answered. If p's last request for a receipt had failed, the
// batches whose requests had failed too become due at once.
func (u *Uploader) isBack(p *progress) {
	if p.receipt.failures == 0 {
		return
	}
	for _, other := range u.batches {
		if other != p && other.receipt.failures > 0 {
			other.receipt, other.due = retry{}, time.Time{}
		}
	}
	u.Wake()
}

// obey does what the receipt says. It reports whether the batch has left the spool.
func (u *Uploader) obey(ctx context.Context, b Spooled, p *progress, receipt *wire.Receipt) (gone bool, err error) {
	switch {
	case receipt.SHA256 != b.SHA256:
		p.due = u.backOff(ctx, &p.receipt, fmt.Errorf("the receipt is for other bytes: sha256 %s, not %s", receipt.SHA256, b.SHA256), "batch", b.ID)
		return false, nil
	case receipt.State == wire.StatePublished:
		u.opt.Log.InfoContext(ctx, "batch published", "batch", b.ID, "edition", receipt.Edition, "version", receipt.Version)
		if u.opt.Published != nil {
			if err := u.opt.Published(b, receipt); err != nil {
				return false, err
			}
		}
		return true, u.opt.Spool.Remove(b.ID)
	case receipt.State != wire.StateQuarantined:
		p.due = time.Now().Add(jitter(u.opt.Poll))
		return false, nil
	}
	why := fmt.Sprintf("%s: %s\n%s", receipt.Reason, receipt.Detail, advice(receipt.Reason))
	if receipt.Reason == wire.ReasonSHAMismatch {
		switch ok, err := intact(b); {
		case err != nil:
			return false, err
		case !ok:
			why = fmt.Sprintf("%s: %s\nThis robot's own copy of the batch no longer has its digest: look at its disk. The pages are fetched again in the next cycle.", receipt.Reason, receipt.Detail)
		case p.resent < maxResent:
			return u.sendAgain(ctx, b, p, receipt)
		}
	}
	return true, u.putAside(b, receipt, why)
}

// sendAgain sends a batch that arrived damaged once more, and obeys the new receipt.
func (u *Uploader) sendAgain(ctx context.Context, b Spooled, p *progress, old *wire.Receipt) (gone bool, err error) {
	u.opt.Log.WarnContext(ctx, "batch arrived damaged; it is sent again", "batch", b.ID, "detail", old.Detail)
	receipt := u.send(ctx, b, p)
	if receipt == nil {
		return false, nil
	}
	p.resent++
	return u.obey(ctx, b, p, receipt)
}

func (u *Uploader) putAside(b Spooled, receipt *wire.Receipt, why string) error {
	u.opt.Log.Error("batch not taken by the service; kept in spool/quarantined",
		"batch", b.ID, "reason", receipt.Reason, "detail", receipt.Detail, "advice", advice(receipt.Reason))
	if u.opt.Quarantined != nil {
		if err := u.opt.Quarantined(b, receipt); err != nil {
			return err
		}
	}
	return u.opt.Spool.Quarantine(b.ID, why)
}

// send sends the batch to the first target that accepts it, and returns the receipt. If no target
// accepts the batch, or there is no receipt yet, it returns nil and sets p.due.
func (u *Uploader) send(ctx context.Context, b Spooled, p *progress) *wire.Receipt {
	now := time.Now()
	for i := range u.targets {
		t := &u.targets[i]
		if t.Again.After(now) || p.at[i].due.After(now) || ctx.Err() != nil {
			continue
		}
		err := u.try(ctx, b, i)
		if refused, ok := errors.AsType[*RefusedError](err); err == nil || ok {
			t.Failures, t.Again = 0, time.Time{}
			receipt, rerr := u.opt.Receipts.Receipt(ctx, b.ID, b.SHA256)
			switch {
			case rerr == nil:
				p.at[i] = retry{}
				u.opt.Log.InfoContext(ctx, "batch sent", "batch", b.ID, "bytes", b.Size, "target", t.Name, "state", receipt.State)
				return receipt
			case refused != nil && refused.Reason == wire.ReasonTooLarge && errors.Is(rerr, ErrUnknown):
				// The answer is not signed, but nothing is lost: the batch is kept. Trying it again
				// for ever would be of no use.
				return &wire.Receipt{Batch: b.ID, SHA256: b.SHA256, State: wire.StateQuarantined, Reason: refused.Reason, Detail: refused.Error()}
			case err == nil && errors.Is(rerr, ErrUnknown):
				// With FTP the service may need a moment to find the manifest.
				p.at[i] = retry{due: time.Now().Add(u.opt.Poll)}
				p.due = p.at[i].due
				return nil
			case err == nil:
				p.due = u.backOff(ctx, &p.receipt, rerr, "batch", b.ID)
				return nil
			}
		}
		if _, ok := errors.AsType[*DownError](err); ok {
			r := retry{failures: t.Failures}
			u.backOff(ctx, &r, err, "batch", b.ID, "target", t.Name)
			t.Failures, t.Again = r.failures, r.due
			continue
		}
		u.backOff(ctx, &p.at[i], err, "batch", b.ID, "target", t.Name)
		p.failed = err.Error()
	}
	p.due = time.Now().Add(u.opt.BackOffMax)
	for i := range p.at {
		if at, target := p.at[i].due, u.targets[i].Again; at.Before(p.due) && target.Before(p.due) {
			p.due = slices.MaxFunc([]time.Time{at, target}, time.Time.Compare)
		}
	}
	return nil
}

// backOff counts and logs a failure, and returns the time of the next try.
func (u *Uploader) backOff(ctx context.Context, r *retry, err error, about ...any) time.Time {
	wait := min(u.opt.BackOff<<min(r.failures, 20), u.opt.BackOffMax)
	if wait <= 0 {
		wait = u.opt.BackOffMax
	}
	r.failures++
	wait = jitter(wait)
	if later, ok := errors.AsType[*LaterError](err); ok {
		wait = max(wait, jitter(later.After))
	}
	r.due = time.Now().Add(wait)
	if ctx.Err() == nil {
		u.opt.Log.WarnContext(ctx, "batch not uploaded", append(about, "err", err, "attempts", r.failures, "again", wait.Round(time.Second))...)
	}
	return r.due
}

// maxResent is how often a batch that arrived damaged is sent again.
const maxResent = 2

// advice returns what the robot's operator should do about a batch that was put aside.
func advice(reason wire.Reason) string {
	switch reason {
	case wire.ReasonSHAMismatch:
		return "Bytes were changed on the way or on a disk, again and again: look at the line, at proxies on it, and at both disks."
	case wire.ReasonTruncated, wire.ReasonCorruptMember, wire.ReasonPathEscape, wire.ReasonLinkEntry, wire.ReasonBombRatio:
		return "The batch itself is wrong: look at this robot's disk, and report it with the batch. The pages are fetched again in the next cycle."
	case wire.ReasonHostNotAssigned:
		return "The service has the batch and its operator can release it; then this copy may be deleted."
	case wire.ReasonClock:
		return "Set this robot's clock (NTP). The service has the batch and its operator can release it; then this copy may be deleted."
	case wire.ReasonTooLarge:
		return "The service's disks can never take a batch of this size: make smaller ones (batch.size), or ask its operator for room. The pages are fetched again in the next cycle."
	case wire.ReasonIDReuse:
		return "The service has another batch under this ID: is the data folder a copy, or restored from a backup? One folder, one robot; join with a new token for the other."
	case wire.ReasonBadSignature:
		return "This robot signs with another key than it joined with (robot.key): restore the key, or join again with a new token."
	}
	return "This robot does not know the reason: is there a newer robotd?"
}

// intact reports whether the robot's copy of the batch still has its digest.
func intact(b Spooled) (bool, error) {
	f, err := os.Open(b.Path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	digest, n, err := wire.DigestOf(f)
	return n == b.Size && digest == b.SHA256, err
}
