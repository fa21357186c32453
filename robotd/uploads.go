package robotd

import (
	"context"

	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/datadir"
	"sheaf/robotd/diskguard"
	"sheaf/robotd/status"
	"sheaf/robotd/upload"
)

func (r *Robot) newUploader() (*upload.Uploader, error) {
	ways, err := r.targets()
	if err != nil {
		return nil, err
	}
	var targets []upload.Target
	var desks []upload.ReceiptSource
	for _, w := range ways {
		targets, desks = append(targets, w), append(desks, w)
	}
	return upload.New(upload.Options{
		Spool: r.batches, Targets: targets, Receipts: upload.NewReceiptSources(desks...), Log: r.log,
		Poll: r.cfg.Upload.Poll, BackOff: r.cfg.Upload.BackOff,
		Published: r.published, Quarantined: r.quarantined,
	}), nil
}

// published keeps the receipt of a batch. Where the disk is full, the batch must go all the
// same, for want of whose room the receipt cannot be kept.
func (r *Robot) published(b batch.Spooled, receipt *wire.Receipt) error {
	err := datadir.SaveJSON(r.path("receipts", string(b.ID)+".json"), receipt)
	if diskguard.IsFull(err) {
		r.log.Warn("receipt not kept", "batch", b.ID, "edition", receipt.Edition, "version", receipt.Version, "error", err)
		return nil
	}
	return err
}

// quarantined forgets what the batch's pages were like: their full copies were
// never published, so that no revisit may refer to them.
func (r *Robot) quarantined(b batch.Spooled, _ *wire.Receipt) error {
	for _, host := range b.Hosts {
		r.watches.forget(host)
		if err := r.frontier.ForgetVisits(host); err != nil {
			return err
		}
	}
	return nil
}

// Drain uploads until every batch in the spool is published.
func (r *Robot) Drain(ctx context.Context) error { return r.uploader.Drain(ctx) }

// describeUploads adds how far the batches in the spool and their targets are.
func (r *Robot) describeUploads(s *status.Status) {
	u := r.uploader.State()
	for i := range s.Spool {
		b := &s.Spool[i]
		is := u.Batches[b.ID]
		b.State, b.Error, b.Next = string(is.Known), is.Error, is.Next
		if u.Sending == b.ID {
			b.To, b.Sent = u.To, u.Moved
			if took := s.At.Sub(u.Since).Seconds(); took >= 1 {
				b.Rate = int64(float64(u.Moved-u.From) / took)
			}
		}
	}
	for _, t := range u.Targets {
		s.Targets = append(s.Targets, status.Target{
			Name: t.Name, Failures: t.Failures, Again: t.Again, Error: t.Error, Failed: t.Failed, Answered: t.Sent,
		})
	}
}
