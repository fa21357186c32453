package mailer

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"sheaf/internal/db"
	"sheaf/internal/loop"
)

// Letter is a mail of plain text.
type Letter struct{ To, Subject, Text string }

// Outbox keeps letters in the control database until they are sent. Several processes may send from
// it at once: each claims a letter before it sends the letter. If a process is killed after it has
// sent a letter and before it has noted that, the letter is sent again, with the same Message-ID.
type Outbox struct {
	db     *sql.DB
	server *Server
	log    *slog.Logger
	now    func() time.Time
	added  chan struct{} // has a value after Hurry
}

const (
	claimFor   = 30 * time.Second    // added to the limit for sending
	keepFailed = 30 * 24 * time.Hour // how long letters that were given up are kept
	claimMany  = 20                  // number of letters read at once
	outboxPoll = time.Minute         // between two looks for letters that are due
)

// NewOutbox returns the outbox in d, which internal/db has opened. Without a server, letters are
// dropped. A nil logger discards.
func NewOutbox(d *sql.DB, server *Server, log *slog.Logger) *Outbox {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Outbox{db: d, server: server, log: log, now: time.Now, added: make(chan struct{}, 1)}
}

// Sends reports whether there is a mail server.
func (o *Outbox) Sends() bool { return o.server != nil }

// Add puts a letter into the outbox, as a part of a transaction. Call Hurry after the commit.
func (o *Outbox) Add(ctx context.Context, tx *sql.Tx, l Letter) error {
	if o.server == nil {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO mails (id, recipient, subject, body, due, created) VALUES (?, ?, ?, ?, ?, ?)`,
		strings.ToLower(rand.Text()), l.To, OneLine(l.Subject), l.Text, db.Millis(o.now()), db.Millis(o.now()))
	if err != nil {
		return fmt.Errorf("mail to %s: %w", l.To, err)
	}
	return nil
}

// Hurry makes Run look for letters now.
func (o *Outbox) Hurry() {
	select {
	case o.added <- struct{}{}:
	default: // Run will look anyway
	}
}

// Run sends letters until ctx ends. Without a server it returns at once.
func (o *Outbox) Run(ctx context.Context) error {
	if o.server == nil {
		return nil
	}
	for more := true; more; more = loop.Wait(ctx, outboxPoll, o.added) {
		if err := o.sendDue(ctx); err != nil && ctx.Err() == nil {
			o.log.ErrorContext(ctx, "mails could not be looked for", "err", err)
		}
	}
	return nil
}

// queued is a letter in the outbox, and how often it was tried.
type queued struct {
	Letter
	id       string
	attempts int
}

func (o *Outbox) sendDue(ctx context.Context) error {
	if _, err := o.db.ExecContext(ctx, `DELETE FROM mails WHERE failed = 1 AND created < ?`, db.Millis(o.now().Add(-keepFailed))); err != nil {
		return err
	}
	for {
		due, err := db.List(ctx, o.db, func(rows *sql.Rows, q *queued) error {
			return rows.Scan(&q.id, &q.To, &q.Subject, &q.Text, &q.attempts)
		}, `SELECT id, recipient, subject, body, attempts FROM mails WHERE failed = 0 AND (due <= ? OR due > ?) ORDER BY due, id LIMIT ?`,
			db.Millis(o.now()), db.Millis(BeyondPauses(o.now())), claimMany)
		if err != nil || len(due) == 0 {
			return err
		}
		for _, q := range due {
			if err := o.send(ctx, q); err != nil {
				return err
			}
		}
	}
}

// send claims a letter and sends it. It notes a failure to send in the letter's row, and returns
// nil.
func (o *Outbox) send(ctx context.Context, q queued) error {
	until := o.now().Add(o.server.WaitTime() + claimFor)
	n, err := db.Exec(ctx, o.db, `UPDATE mails SET due = ?, attempts = attempts + 1 WHERE id = ? AND attempts = ? AND failed = 0`, db.Millis(until), q.id, q.attempts)
	if err != nil || n == 0 { // 0: another process has it
		return err
	}
	q.attempts++
	m, err := o.server.New(q.id, q.To, q.Subject)
	if err == nil {
		m.SetBodyString(mail.TypeTextPlain, q.Text)
		err = o.server.Send(ctx, m)
	}
	if ctx.Err() != nil && err != nil {
		return nil // the claim ends by itself
	}
	ctx = context.WithoutCancel(ctx)
	var final *Refused
	switch {
	case err == nil:
		_, err = o.db.ExecContext(ctx, `DELETE FROM mails WHERE id = ?`, q.id)
	case errors.As(err, &final) || q.attempts >= MaxAttempts:
		o.log.WarnContext(ctx, "a mail could not be delivered and is given up", "mail", q.To, "attempts", q.attempts, "err", err)
		_, err = o.db.ExecContext(ctx, `UPDATE mails SET failed = 1, error = ? WHERE id = ?`, OneLine(err.Error()), q.id)
	default:
		again := o.now().Add(Pause(q.attempts))
		o.log.InfoContext(ctx, "a mail could not be delivered and will be tried again", "mail", q.To, "at", again, "err", err)
		_, err = o.db.ExecContext(ctx, `UPDATE mails SET due = ?, error = ? WHERE id = ?`, db.Millis(again), OneLine(err.Error()), q.id)
	}
	return err
}

// Counts has the numbers of letters in the outbox.
type Counts struct {
	Waiting int64 // letters that were not tried yet
	Failing int64 // letters that failed and will be tried again
	GivenUp int64 // letters that were given up in the last 30 days
}

// Counts counts the letters that are not delivered.
func (o *Outbox) Counts(ctx context.Context) (c Counts, err error) {
	err = o.db.QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM mails WHERE failed = 0 AND error = ''),
		(SELECT COUNT(*) FROM mails WHERE failed = 0 AND error <> ''),
		(SELECT COUNT(*) FROM mails WHERE failed = 1)`).Scan(&c.Waiting, &c.Failing, &c.GivenUp)
	return c, err
}
