package watch

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/db"
	"sheaf/internal/mailer"
)

// channel is a way in which a notice is delivered.
type channel string

const (
	byMail    channel = "mail"
	byWebhook channel = "webhook"
)

// state says whether a delivery is still to be sent.
type state string

const (
	waiting state = "waiting" // to be sent, perhaps again
	sent    state = "sent"
	dead    state = "dead" // given up
)

// delivery is a notice, or a request to confirm, that is to be sent by one channel. One mail may
// have many deliveries.
type delivery struct {
	id       string
	watch    string
	notice   string // empty: the mail that asks to confirm an address
	channel  channel
	due      time.Time // of a new delivery
	attempts int       // with the one under way

	of *Watch // of a delivery that is due
}

// insertDelivery adds a delivery, unless it is there.
func insertDelivery(ctx context.Context, tx *sql.Tx, d delivery) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO watch_deliveries (id, watch, notice, channel, state, due) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		d.id, d.watch, d.notice, d.channel, waiting, db.Millis(d.due))
	return err
}

const (
	// claimFor is how long a claim to a delivery lasts beyond what sending may take. If a process
	// is killed, another one sends its deliveries that much later.
	claimFor = 30 * time.Second
	// sendAtOnce is how many calls and mails are under way at once: a slow one delays no other.
	sendAtOnce = 8
	// dueAtOnce is how many deliveries are read at once.
	dueAtOnce = 100
)

// deliverer sends what is due. Several may work at once, in many processes: each claims a delivery
// right before it sends it.
type deliverer struct {
	table *table
	hooks *hooks
	mails *mails
	log   *slog.Logger
}

// deliverDue sends what is due now. more says that there may be other deliveries.
func (s *deliverer) deliverDue(ctx context.Context) (more bool, err error) {
	due, err := s.due(ctx)
	if err != nil || len(due) == 0 {
		return false, err
	}
	letters := make(map[letterKey][]delivery)
	var sending errgroup.Group
	sending.SetLimit(sendAtOnce)
	defer func() { err = errors.Join(err, sending.Wait()) }()
	for _, d := range due {
		d.of, err = s.table.watch(ctx, d.watch)
		if errors.Is(err, ErrNoWatch) { // it was removed while this delivery was being written
			s.settle(ctx, d, &refusal{err}, s.table.now())
			continue
		}
		if err != nil {
			return false, err
		}
		if d.channel == byWebhook {
			sending.Go(func() error { return s.callInTurn(ctx, d) })
			continue
		}
		key := letterKey{d.of.Account, d.of.Email, d.notice == "", ""}
		if key.confirms {
			key.watch = d.watch
		}
		letters[key] = append(letters[key], d)
	}
	for key, list := range letters {
		sending.Go(func() error { return s.mail(ctx, key.email, list) })
	}
	return true, nil
}

// due returns deliveries that are due.
func (s *deliverer) due(ctx context.Context) ([]delivery, error) {
	now := db.Millis(s.table.now())
	beyond := db.Millis(mailer.BeyondPauses(s.table.now()))
	return db.List(ctx, s.table.db, func(rows *sql.Rows, d *delivery) error {
		return rows.Scan(&d.id, &d.watch, &d.notice, &d.channel, &d.attempts)
	}, `SELECT id, watch, notice, channel, attempts FROM watch_deliveries d
		WHERE state = ? AND (due <= ? OR due > ? AND (attempts > 0 OR channel = ? OR notice = '')) AND `+notResting+` ORDER BY due, id LIMIT ?`,
		waiting, now, beyond, byWebhook, now, beyond, dueAtOnce) // mails of notices may wait for weeks
}

// claim claims a delivery for as long as sending it may take. It reports whether no other process
// has it.
func (s *deliverer) claim(ctx context.Context, d *delivery, long time.Duration) (mine bool, err error) {
	n, err := db.Exec(ctx, s.table.db, `UPDATE watch_deliveries SET due = ?, attempts = attempts + 1 WHERE id = ? AND state = ? AND attempts = ?`,
		db.Millis(s.table.now().Add(long+claimFor)), d.id, waiting, d.attempts)
	d.attempts++
	return err == nil && n == 1, err
}

// mail sends one letter with those deliveries that no other process has.
func (s *deliverer) mail(ctx context.Context, to string, list []delivery) error {
	l := &letter{to: to}
	for _, d := range list {
		mine, err := s.claim(ctx, &d, s.mails.server.WaitTime())
		if mine {
			err = s.mails.add(ctx, l, d)
		}
		if err != nil {
			return err
		}
	}
	if len(l.of) == 0 {
		return nil
	}
	err := s.mails.send(ctx, l)
	for _, d := range l.of {
		s.settle(ctx, d, err, time.Time{})
	}
	return nil
}

// settle notes how a delivery ended. After a failure, again is the time of the next attempt; zero
// means after the delivery's own pause. After a refusal, or the last attempt, the delivery is given
// up. If noting fails, the delivery is sent again when its claim ends.
func (s *deliverer) settle(ctx context.Context, d delivery, cause error, again time.Time) {
	now := s.table.now()
	if again.IsZero() {
		again = now.Add(mailer.Pause(d.attempts))
	}
	to, due, text := sent, now, ""
	var final *refusal
	switch {
	case cause == nil:
	case errors.As(cause, &final) || d.attempts >= mailer.MaxAttempts:
		to, text = dead, mailer.OneLine(told(cause))
		s.log.WarnContext(ctx, "watch: a notice could not be delivered and is given up", "watch", d.watch, "channel", d.channel, "attempts", d.attempts, "err", cause)
	default:
		to, due, text = waiting, again, mailer.OneLine(told(cause))
		s.log.InfoContext(ctx, "watch: a notice could not be delivered and will be tried again", "watch", d.watch, "channel", d.channel, "at", due, "err", cause)
	}
	_, err := s.table.db.ExecContext(context.WithoutCancel(ctx), `UPDATE watch_deliveries SET state = ?, due = ?, error = ? WHERE id = ? AND state = ?`,
		to, db.Millis(due), text, d.id, waiting) // a delivery that was given up meanwhile stays so
	if err == nil && final != nil {
		err = s.stop(context.WithoutCancel(ctx), d, text)
	}
	if err != nil {
		s.log.ErrorContext(ctx, "watch: a delivery was not noted and may come twice", "delivery", d.id, "err", err)
	}
}

// stop ends a watch's mails, or its webhook's calls, because the other side has refused them for
// good. The watch shows the reason, and its other deliveries go on.
func (s *deliverer) stop(ctx context.Context, d delivery, why string) error {
	column := map[channel]string{byMail: "mail_stopped", byWebhook: "hook_stopped"}[d.channel]
	if _, err := s.table.db.ExecContext(ctx, `UPDATE watches SET `+column+` = ? WHERE id = ?`, why, d.watch); err != nil {
		return err
	}
	_, err := s.table.db.ExecContext(ctx, `UPDATE watch_deliveries SET state = ?, due = ?, error = ? WHERE watch = ? AND channel = ? AND state = ?`,
		dead, db.Millis(s.table.now()), why, d.watch, d.channel, waiting)
	return err
}

// refusal is a failure for good: the next attempt would fail too.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }
