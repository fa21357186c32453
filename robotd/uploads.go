package robotd

import (
	"context"
	"net/http"

	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/room"
	"sheaf/robotd/upload"
)

func (r *Robot) newUploader(client *http.Client) (*upload.Uploader, error) {
	ways, err := r.targets(client)
	if err != nil {
		return nil, err
	}
	var targets []upload.Target
	var desks upload.Desks
	for _, w := range ways {
		targets, desks = append(targets, w), append(desks, w)
	}
	return upload.New(upload.Options{
		Spool: r.batches, Targets: targets, Desk: desks, Log: r.log,
		Poll: r.cfg.Upload.Poll, BackOff: r.cfg.Upload.BackOff,
		Published: r.published, Quarantined: r.quarantined,
	}), nil
}

// published keeps the receipt of a batch. Where the disk is full, the batch must go all the
// same, for want of whose room the receipt cannot be kept.
func (r *Robot) published(b batch.Spooled, receipt *wire.Receipt) error {
	err := saveJSON(r.path("receipts", string(b.ID)+".json"), receipt)
	if room.IsFull(err) {
		r.log.Warn("receipt not kept", "batch", b.ID, "edition", receipt.Edition, "version", receipt.Version, "error", err)
		return nil
	}
	return err
}

// quarantined forgets what the batch's pages were like: their full copies were
// never published, so that no revisit may refer to them.
func (r *Robot) quarantined(b batch.Spooled, _ *wire.Receipt) error {
	for _, host := range b.Hosts {
		if err := r.frontier.ForgetVisits(host); err != nil {
			return err
		}
	}
	return nil
}

// Drain uploads until every batch in the spool is published.
func (r *Robot) Drain(ctx context.Context) error { return r.uploader.Drain(ctx) }
