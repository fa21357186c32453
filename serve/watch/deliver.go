package watch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/db"
)

type channel string

const (
	byMail    channel = "mail"
	byWebhook channel = "webhook"
)

type state string

const (
	waiting state = "waiting"
	sent    state = "sent"
	dead    state = "dead"
)

// delivery is one thing to be sent. A mail may carry many.
type delivery struct {
	id       string
	watch    string
	notice   string // empty: the mail that asks to confirm an address
	channel  channel
	due      time.Time
	attempts int
}

func enter(ctx context.Context, tx *sql.Tx, d delivery) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO watch_deliveries (id, watch, notice, channel, state, due) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		d.id, d.watch, d.notice, d.channel, waiting, db.Millis(d.due))
	return err
}

const (
	// claimFor is how long what one process has begun to send is its own, beyond what sending may take: when the
	// process is killed, another goes on that much later.
	claimFor = 30 * time.Second
	// sendAtOnce is how many calls and mails are under way at a time: one that hangs holds up no other.
	sendAtOnce = 8
	// claimed is how many deliveries are begun at a time.
	claimed = 100
	// giveUp is how often it is tried: with the pauses below, over some three days.
	giveUp = 16
	// forget is how long what was sent, or given up, is remembered.
	forget = 30 * 24 * time.Hour
)

// pause is how long to wait after the n-th failure: 30 seconds, doubled up to 8 hours.
func pause(n int) time.Duration {
	const first, most = 30 * time.Second, 8 * time.Hour
	return min(first<<min(n-1, 20), most)
}

// Deliver sends what is due until ctx ends. Several may at once: each takes deliveries for itself before it
// sends them.
func (s *Watches) Deliver(ctx context.Context, poll time.Duration) error {
	for ctx.Err() == nil {
		n, err := s.deliverDue(ctx)
		if err != nil && ctx.Err() == nil {
			s.opt.Log.ErrorContext(ctx, "watch: sending failed and will be repeated", "err", err)
		}
		if n > 0 && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(poll):
		}
	}
	return nil
}

// deliverDue sends what is due now, and says of how many deliveries it took care.
func (s *Watches) deliverDue(ctx context.Context) (n int, err error) {
	due, err := s.claim(ctx)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	letters := make(map[letterKey]*letter)
	var sending errgroup.Group
	sending.SetLimit(sendAtOnce)
	defer func() { err = errors.Join(err, sending.Wait()) }()
	for _, d := range due {
		w, err := s.byID(ctx, d.watch)
		if errors.Is(err, ErrNoWatch) {
			continue // its deliveries went with it
		}
		if err != nil {
			return 0, err
		}
		if d.channel == byWebhook {
			sending.Go(func() error {
				mine, err := s.hold(ctx, hookTime, d)
				if err != nil || !mine {
					return err
				}
				return s.callInTurn(ctx, w, d)
			})
			continue
		}
		key := letterKey{w.Account, w.Email, d.notice == "", ""}
		if key.confirms {
			key.watch = w.ID
		}
		if letters[key] == nil {
			letters[key] = &letter{to: w.Email}
		}
		if err := s.add(ctx, letters[key], w, d); err != nil {
			return 0, err
		}
	}
	for _, l := range letters {
		sending.Go(func() error {
			mine, err := s.hold(ctx, s.opt.Mail.patience(), l.of...)
			if !mine {
				return err
			}
			err = s.send(ctx, l)
			for _, d := range l.of {
				s.settle(ctx, d, err, time.Time{})
			}
			return nil
		})
	}
	return len(due), nil
}

// hold renews the claims to deliveries that are sent now, and reports whether all are still this process's: its
// turn may have come late.
func (s *Watches) hold(ctx context.Context, long time.Duration, list ...delivery) (mine bool, err error) {
	until := s.opt.Now().Add(long + claimFor)
	for _, d := range list {
		res, err := s.opt.DB.ExecContext(ctx, `UPDATE watch_deliveries SET due = ? WHERE id = ? AND state = ? AND attempts = ?`, db.Millis(until), d.id, waiting, d.attempts)
		if err != nil {
			return false, err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return false, err
		}
	}
	return true, nil
}

// turn is how long a delivery that was taken may wait to be sent.
func (s *Watches) turn() time.Duration { return max(hookTime, s.opt.Mail.patience()) }

// claim takes deliveries that are due, so that no other process sends them.
func (s *Watches) claim(ctx context.Context) ([]delivery, error) {
	now := s.opt.Now()
	rows, err := s.opt.DB.QueryContext(ctx, `SELECT id, watch, notice, channel, due, attempts FROM watch_deliveries d
		WHERE state = ? AND due <= ? AND `+notResting+` ORDER BY due, id LIMIT ?`, waiting, db.Millis(now), db.Millis(now), claimed)
	if err != nil {
		return nil, err
	}
	var list []delivery
	for rows.Next() {
		var d delivery
		var due int64
		if err := rows.Scan(&d.id, &d.watch, &d.notice, &d.channel, &due, &d.attempts); err != nil {
			rows.Close()
			return nil, err
		}
		d.due = db.Time(due)
		list = append(list, d)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	mine := list[:0]
	for _, d := range list {
		res, err := s.opt.DB.ExecContext(ctx, `UPDATE watch_deliveries SET due = ?, attempts = attempts + 1 WHERE id = ? AND state = ? AND attempts = ?`,
			db.Millis(now.Add(s.turn()+claimFor)), d.id, waiting, d.attempts)
		if err != nil {
			return nil, err
		}
		if n, err := res.RowsAffected(); err != nil {
			return nil, err
		} else if n == 1 {
			d.attempts++
			mine = append(mine, d)
		}
	}
	return mine, nil
}

// settle notes how a delivery ended. One that failed is tried again at the given time; the zero
// time means after its own pause. If noting fails it is sent again once its claim ends.
func (s *Watches) settle(ctx context.Context, d delivery, cause error, again time.Time) {
	now := s.opt.Now()
	if again.IsZero() {
		again = now.Add(pause(d.attempts))
	}
	to, due, text := sent, now, ""
	var final *refusal
	switch {
	case cause == nil:
	case errors.As(cause, &final) || d.attempts >= giveUp:
		to, text = dead, oneLine(told(cause))
		s.opt.Log.WarnContext(ctx, "watch: a notice could not be delivered and is given up", "watch", d.watch, "channel", d.channel, "attempts", d.attempts, "err", cause)
	default:
		to, due, text = waiting, again, oneLine(told(cause))
		s.opt.Log.InfoContext(ctx, "watch: a notice could not be delivered and will be again", "watch", d.watch, "channel", d.channel, "at", due, "err", cause)
	}
	_, err := s.opt.DB.ExecContext(context.WithoutCancel(ctx), `UPDATE watch_deliveries SET state = ?, due = ?, error = ? WHERE id = ? AND state = ?`,
		to, db.Millis(due), text, d.id, waiting) // what has been given up meanwhile stays so
	if err == nil && final != nil {
		err = s.stopped(context.WithoutCancel(ctx), d, text)
	}
	if err != nil {
		s.opt.Log.ErrorContext(ctx, "watch: a delivery was not noted and may come twice", "id", d.id, "err", err)
	}
}

// stopped ends a watch's mails, or its webhook's calls, that were refused for good. The watch says why, and goes on otherwise.
func (s *Watches) stopped(ctx context.Context, d delivery, why string) error {
	column := map[channel]string{byMail: "mail_stopped", byWebhook: "hook_stopped"}[d.channel]
	if _, err := s.opt.DB.ExecContext(ctx, `UPDATE watches SET `+column+` = ? WHERE id = ?`, why, d.watch); err != nil {
		return err
	}
	_, err := s.opt.DB.ExecContext(ctx, `UPDATE watch_deliveries SET state = ?, due = ?, error = ? WHERE watch = ? AND channel = ? AND state = ?`,
		dead, db.Millis(s.opt.Now()), why, d.watch, d.channel, waiting)
	return err
}

// refusal is a failure that will be the same the next time.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// Sweep forgets what was sent long ago, and notices of that age.
func (s *Watches) Sweep(ctx context.Context) error {
	before := db.Millis(s.opt.Now().Add(-forget))
	for _, q := range []string{`DELETE FROM watch_deliveries WHERE state <> 'waiting' AND due < ?`, `DELETE FROM watch_notices WHERE found < ?`, `DELETE FROM watch_hooks WHERE resume < ?`} {
		if _, err := s.opt.DB.ExecContext(ctx, q, before); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return nil
}

// notice finds one by its ID; nil where it is forgotten.
func (s *Watches) notice(ctx context.Context, id string) (*Notice, error) {
	n, err := s.scanNotice(s.opt.DB.QueryRowContext(ctx, `SELECT `+noticeColumns+` FROM watch_notices WHERE id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return n, err
}
