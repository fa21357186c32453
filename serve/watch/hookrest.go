package watch

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/mailer"
)

// A webhook that fails rests, twice as long after each failure, and then gets one call at a time.
// The rest belongs to the account's URL and not to a delivery, so a thousand changes that wait for
// a dead URL make no more calls than one. The first call that is answered ends the rest.

// hookPatience is how long a notice waits for a failing webhook before it is given up.
const hookPatience = 3 * 24 * time.Hour

// notResting is an SQL condition: delivery d does not wait for a webhook that rests at the time
// given by its first parameter. The second is mailer.BeyondPauses of that time.
const notResting = `NOT EXISTS (SELECT 1 FROM watches w JOIN watch_hooks h ON h.account = w.account AND h.webhook = w.webhook
	WHERE w.id = d.watch AND d.channel = 'webhook' AND h.resume > ? AND h.resume <= ?)`

// turn is the right to call a webhook now.
type turn struct {
	until  int64 // end of the rest that this call has made for others, in milliseconds; 0: the webhook has not failed
	failed int   // number of failures in a row
}

// take takes the turn to call a webhook. There is no turn while the webhook rests, or while another
// call tries whether the webhook answers again.
func (h *hooks) take(ctx context.Context, w *Watch) (t turn, ok bool, err error) {
	var resume int64
	err = h.table.db.QueryRowContext(ctx, `SELECT failures, resume FROM watch_hooks WHERE account = ? AND webhook = ?`, w.Account, w.Webhook).Scan(&t.failed, &resume)
	if errors.Is(err, sql.ErrNoRows) {
		return turn{}, true, nil
	}
	now := h.table.now()
	if err != nil || resume > db.Millis(now) && resume <= db.Millis(mailer.BeyondPauses(now)) {
		return turn{}, false, err
	}
	t.until = db.Millis(now.Add(hookTime + claimFor))
	n, err := db.Exec(ctx, h.table.db, `UPDATE watch_hooks SET resume = ? WHERE account = ? AND webhook = ? AND resume = ?`, t.until, w.Account, w.Webhook, resume)
	return t, n == 1, err
}

// answered ends the rest of a webhook.
func (h *hooks) answered(ctx context.Context, w *Watch) error {
	_, err := h.table.db.ExecContext(ctx, `DELETE FROM watch_hooks WHERE account = ? AND webhook = ?`, w.Account, w.Webhook)
	return err
}

// rest notes that a call failed, and returns the time from which on the next call may be made. Of
// several calls that were under way at once only the first counts. It gives up notices that have
// waited too long.
func (h *hooks) rest(ctx context.Context, w *Watch, t turn, why string) (time.Time, error) {
	now := h.table.now()
	next := now.Add(mailer.Pause(t.failed + 1))
	var err error
	if t.until == 0 {
		_, err = h.table.db.ExecContext(ctx, `INSERT INTO watch_hooks (account, webhook, failures, resume) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			w.Account, w.Webhook, t.failed+1, db.Millis(next))
	} else {
		_, err = h.table.db.ExecContext(ctx, `UPDATE watch_hooks SET failures = ?, resume = ? WHERE account = ? AND webhook = ? AND resume = ?`,
			t.failed+1, db.Millis(next), w.Account, w.Webhook, t.until)
	}
	if err != nil {
		return next, err
	}
	_, err = h.table.db.ExecContext(ctx, `
		UPDATE watch_deliveries SET state = ?, due = ?, error = ? WHERE state = ? AND channel = ?
		AND watch IN (SELECT id FROM watches WHERE account = ? AND webhook = ?) AND notice IN (SELECT id FROM watch_notices WHERE account = ? AND found < ?)`,
		dead, db.Millis(now), why, waiting, byWebhook, w.Account, w.Webhook, w.Account, db.Millis(now.Add(-hookPatience)))
	return next, err
}

// putBack undoes the claim to a delivery that cannot be sent yet.
func (s *deliverer) putBack(ctx context.Context, d delivery) error {
	_, err := s.table.db.ExecContext(ctx, `UPDATE watch_deliveries SET due = ?, attempts = attempts - 1 WHERE id = ? AND state = ? AND attempts = ?`,
		db.Millis(d.due), d.id, waiting, d.attempts)
	return err
}

// callInTurn calls a webhook if it does not rest, and notes the result.
func (s *deliverer) callInTurn(ctx context.Context, w *Watch, d delivery) error {
	t, ok, err := s.hooks.take(ctx, w)
	if err != nil {
		return err
	}
	if !ok {
		return s.putBack(ctx, d)
	}
	var failed *hookFailure
	var final *refusal
	again := time.Time{}
	cause := s.hooks.call(ctx, w, d)
	noted := context.WithoutCancel(ctx)
	switch {
	case cause == nil || errors.As(cause, &final):
		err = s.hooks.answered(noted, w)
	case ctx.Err() == nil && errors.As(cause, &failed):
		again, err = s.hooks.rest(noted, w, t, failed.says)
	}
	s.settle(ctx, d, cause, again)
	return err
}
