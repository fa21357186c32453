package watch

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sheaf/internal/db"
)

// A webhook that fails rests, twice as long after each failure, and then gets one call at a time.
// The rest belongs to the account's URL, not to a delivery: a thousand changes that wait for a dead
// URL cost it no more calls than one. The first call that is answered ends the rest.

// hookPatience is how long a notice waits for a webhook that fails before it is given up.
const hookPatience = 3 * 24 * time.Hour

// notResting is what claim asks of a delivery d: that it does not wait for a webhook that rests at
// the time of its first parameter.
const notResting = `NOT EXISTS (SELECT 1 FROM watches w JOIN watch_hooks h ON h.account = w.account AND h.webhook = w.webhook
	WHERE w.id = d.watch AND d.channel = 'webhook' AND h.resume > ?)`

// leave is the leave to call a webhook now.
type leave struct {
	trial  int64 // of one that has failed: the end of the rest that this call has taken for itself, in milliseconds
	failed int   // so often in a row
}

// mayCall asks for leave to call a webhook. It refuses while the webhook rests, and while another call
// tries whether it answers again.
func (s *Watches) mayCall(ctx context.Context, w *Watch) (l leave, ok bool, err error) {
	var resume int64
	err = s.opt.DB.QueryRowContext(ctx, `SELECT failures, resume FROM watch_hooks WHERE account = ? AND webhook = ?`, w.Account, w.Webhook).Scan(&l.failed, &resume)
	if errors.Is(err, sql.ErrNoRows) {
		return leave{}, true, nil
	}
	now := s.opt.Now()
	if err != nil || resume > db.Millis(now) {
		return leave{}, false, err
	}
	l.trial = db.Millis(now.Add(hookTime + claimFor))
	res, err := s.opt.DB.ExecContext(ctx, `UPDATE watch_hooks SET resume = ? WHERE account = ? AND webhook = ? AND resume = ?`, l.trial, w.Account, w.Webhook, resume)
	if err != nil {
		return leave{}, false, err
	}
	n, err := res.RowsAffected()
	return l, n == 1, err
}

// answered notes that a webhook answered: what waits for it may come at once.
func (s *Watches) answered(ctx context.Context, w *Watch) error {
	_, err := s.opt.DB.ExecContext(ctx, `DELETE FROM watch_hooks WHERE account = ? AND webhook = ?`, w.Account, w.Webhook)
	return err
}

// rest notes that a call failed, and returns when the next may be made. Of several calls that were under
// way together only the first counts. Notices that have waited too long are given up.
func (s *Watches) rest(ctx context.Context, w *Watch, l leave, why string) (time.Time, error) {
	now := s.opt.Now()
	next := now.Add(pause(l.failed + 1))
	var err error
	if l.trial == 0 {
		_, err = s.opt.DB.ExecContext(ctx, `INSERT INTO watch_hooks (account, webhook, failures, resume) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			w.Account, w.Webhook, l.failed+1, db.Millis(next))
	} else {
		_, err = s.opt.DB.ExecContext(ctx, `UPDATE watch_hooks SET failures = ?, resume = ? WHERE account = ? AND webhook = ? AND resume = ?`,
			l.failed+1, db.Millis(next), w.Account, w.Webhook, l.trial)
	}
	if err != nil {
		return next, err
	}
	_, err = s.opt.DB.ExecContext(ctx, `
		UPDATE watch_deliveries SET state = ?, due = ?, error = ? WHERE state = ? AND channel = ?
		AND watch IN (SELECT id FROM watches WHERE account = ? AND webhook = ?) AND notice IN (SELECT id FROM watch_notices WHERE account = ? AND found < ?)`,
		dead, db.Millis(now), why, waiting, byWebhook, w.Account, w.Webhook, w.Account, db.Millis(now.Add(-hookPatience)))
	return next, err
}

// putBack undoes the claim to a delivery that may not be sent yet.
func (s *Watches) putBack(ctx context.Context, d delivery) error {
	_, err := s.opt.DB.ExecContext(ctx, `UPDATE watch_deliveries SET due = ?, attempts = attempts - 1 WHERE id = ? AND state = ? AND attempts = ?`,
		db.Millis(d.due), d.id, waiting, d.attempts)
	return err
}

// callInTurn calls a webhook if it does not rest, and notes how that ended.
func (s *Watches) callInTurn(ctx context.Context, w *Watch, d delivery) error {
	l, ok, err := s.mayCall(ctx, w)
	if err != nil {
		return err
	}
	if !ok {
		return s.putBack(ctx, d)
	}
	var failed *hookFailure
	var final *refusal
	again := time.Time{}
	cause := s.call(ctx, w, d)
	noted := context.WithoutCancel(ctx)
	switch {
	case cause == nil || errors.As(cause, &final):
		err = s.answered(noted, w)
	case ctx.Err() == nil && errors.As(cause, &failed):
		again, err = s.rest(noted, w, l, failed.says)
	}
	s.settle(ctx, d, cause, again)
	return err
}
