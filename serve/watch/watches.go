package watch

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sheaf/internal/db"
	"sheaf/serve"
	"sheaf/serve/account"
)

// Errors of Watches.
var (
	ErrNoWatch = errors.New("no such watch")
	ErrMany    = errors.New("too many watches")
	ErrScope   = errors.New("the host is not within the account's scope")
	ErrNoMail  = errors.New("this service sends no mails")
)

// Options of Watches. DB and Library are needed.
type Options struct {
	DB      *sql.DB
	Library *serve.Library
	// Account finds an account by name; nil is one that is gone. Its watches then rest.
	Account func(ctx context.Context, name string) (*account.Account, error)

	Base  string // the service's URL as consumers reach it, without a slash at the end
	Limit int    // watches an account may have; default 1,000

	Mail         *Mail // nil: no mails are sent
	Unconfirmed  bool  // addresses need not be confirmed: the operator knows all consumers
	PrivateHooks bool  // webhooks may be at private and loopback addresses

	Zone *time.Location // of the hours and days of mails; default UTC
	Poll time.Duration  // how soon what was published is noticed, and what is due is sent; default 2 s
	Log  *slog.Logger
	Now  func() time.Time // default time.Now
}

const defaultLimit = 1000

// MaxPoll is Options.Poll's default. A notice should not come later than that.
const MaxPoll = 2 * time.Second

// Watches keeps the watches. Its methods may be called from many goroutines, and
// in many processes on one database, at once.
type Watches struct {
	opt  Options
	hook *hooks
}

// New makes watches whose tables are in opt.DB.
func New(opt Options) (*Watches, error) {
	if opt.DB == nil || opt.Library == nil || opt.Account == nil {
		return nil, errors.New("watch: options lack a database, a library or accounts")
	}
	if opt.Limit == 0 {
		opt.Limit = defaultLimit
	}
	if opt.Zone == nil {
		opt.Zone = time.UTC
	}
	if opt.Poll == 0 {
		opt.Poll = MaxPoll
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Watches{opt: opt, hook: newHooks(opt.PrivateHooks)}, nil
}

const watchColumns = `id, account, kind, host, url, address, body, media, email, every, confirm, webhook, secret, created, mail_stopped, hook_stopped`

type scanner interface{ Scan(...any) error }

func scanWatch(r scanner) (*Watch, error) {
	var w Watch
	var created int64
	if err := r.Scan(&w.ID, &w.Account, &w.Kind, &w.Host, &w.URL, &w.Address, &w.Body, &w.Media, &w.Email, &w.Every, &w.confirm, &w.Webhook, &w.Secret, &created, &w.MailStopped, &w.HookStopped); err != nil {
		return nil, err
	}
	w.Waiting, w.Created = w.confirm != "", db.Time(created)
	return &w, nil
}

// Add begins a watch. Its errors are ErrWish, ErrScope, ErrMany and ErrNoMail.
func (s *Watches) Add(ctx context.Context, a *account.Account, wish Wish) (*Watch, error) {
	w, err := wish.watch()
	switch {
	case err != nil:
		return nil, err
	case !a.Covers(w.Host):
		return nil, fmt.Errorf("%w: %s", ErrScope, w.Host)
	case w.Email != "" && s.opt.Mail == nil:
		return nil, ErrNoMail
	}
	if w.Webhook != "" && !s.opt.PrivateHooks {
		if err := checkHook(w.Webhook); err != nil {
			return nil, fmt.Errorf("%w: webhook %.100q: %v", ErrWish, w.Webhook, err)
		}
	}
	if _, err := s.place(ctx); err != nil { // from now on nothing is missed, though nobody follows yet
		return nil, err
	}
	w.ID, w.Account, w.Secret, w.Created = "w"+random(8), a.Name, newSecret(), s.opt.Now().UTC().Truncate(time.Millisecond)
	if w.Email != "" && !s.opt.Unconfirmed {
		w.confirm = random(16)
	}
	tx, err := s.opt.DB.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	var have, known int
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*), COUNT(CASE WHEN email = ? AND confirm = '' THEN 1 END) FROM watches WHERE account = ?`, w.Email, a.Name).Scan(&have, &known)
	switch {
	case err != nil:
		return nil, err
	case have >= s.opt.Limit:
		return nil, fmt.Errorf("%w: the account has %d, which is the limit", ErrMany, have)
	case known > 0:
		w.confirm = "" // the address has been confirmed for another watch
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO watches (`+watchColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', '')`,
		w.ID, w.Account, w.Kind, w.Host, w.URL, w.Address, w.Body, w.Media, w.Email, w.Every, w.confirm, w.Webhook, w.Secret, db.Millis(w.Created))
	if err == nil && w.confirm != "" {
		err = enter(ctx, tx, delivery{id: w.ID + "-confirm", watch: w.ID, channel: byMail, due: w.Created})
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return nil, err
	}
	w.Waiting = w.confirm != ""
	return w, nil
}

// List gives an account's watches, oldest first.
func (s *Watches) List(ctx context.Context, account string) ([]*Watch, error) {
	list, err := s.query(ctx, `account = ? ORDER BY created, id`, account)
	if err != nil {
		return nil, err
	}
	return list, s.addFailing(ctx, account, list)
}

// addFailing tells of what could not be delivered.
func (s *Watches) addFailing(ctx context.Context, account string, list []*Watch) error {
	byID := make(map[string]*Watch, len(list))
	for _, w := range list {
		byID[w.ID] = w
	}
	rows, err := s.opt.DB.QueryContext(ctx, `
		SELECT d.watch, d.channel, d.state, d.due, d.error FROM watch_deliveries d JOIN watches w ON w.id = d.watch
		WHERE w.account = ? AND d.error <> '' AND d.state <> ? ORDER BY d.watch, d.channel, d.due, d.id`, account, sent)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, why string
		var by channel
		var is state
		var due int64
		if err := rows.Scan(&id, &by, &is, &due, &why); err != nil {
			return err
		}
		w := byID[id]
		if w == nil {
			continue
		}
		n := len(w.Failing)
		if n == 0 || w.Failing[n-1].By != string(by) {
			w.Failing = append(w.Failing, Failing{By: string(by)})
			n++
		}
		f := &w.Failing[n-1]
		f.Error = why
		if is == dead {
			f.GivenUp++
			continue
		}
		if f.Waiting++; f.Next.IsZero() {
			f.Next = db.Time(due)
		}
	}
	return rows.Err()
}

// OfHost gives the watches of a host's pages.
func (s *Watches) OfHost(ctx context.Context, host string) ([]*Watch, error) {
	return s.query(ctx, `host = ? ORDER BY id`, host)
}

func (s *Watches) query(ctx context.Context, where string, args ...any) ([]*Watch, error) {
	rows, err := s.opt.DB.QueryContext(ctx, `SELECT `+watchColumns+` FROM watches WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []*Watch
	for rows.Next() {
		w, err := scanWatch(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, rows.Err()
}

// Get finds an account's watch.
func (s *Watches) Get(ctx context.Context, account, id string) (*Watch, error) {
	list, err := s.query(ctx, `account = ? AND id = ?`, account, id)
	if err == nil {
		err = s.addFailing(ctx, account, list)
	}
	return one(list, err)
}

func (s *Watches) byID(ctx context.Context, id string) (*Watch, error) {
	return one(s.query(ctx, `id = ?`, id))
}

func one(list []*Watch, err error) (*Watch, error) {
	if err == nil && len(list) == 0 {
		err = ErrNoWatch
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// Remove ends an account's watch, with all that was found and is still to be told.
func (s *Watches) Remove(ctx context.Context, account, id string) error {
	if _, err := s.Get(ctx, account, id); err != nil {
		return err
	}
	return s.remove(ctx, id)
}

func (s *Watches) remove(ctx context.Context, id string) error {
	tx, err := s.opt.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, q := range []string{`DELETE FROM watches WHERE id = ?`, `DELETE FROM watch_notices WHERE watch = ?`, `DELETE FROM watch_deliveries WHERE watch = ?`} {
		if _, err := tx.ExecContext(ctx, q, id); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Confirm says that mails of a watch are wanted by whoever reads them. It may be repeated.
func (s *Watches) Confirm(ctx context.Context, id, token string) (*Watch, error) {
	w, err := s.byID(ctx, id)
	if err != nil {
		return nil, err
	}
	if w.confirm == "" {
		return w, nil
	}
	if subtle.ConstantTimeCompare([]byte(w.confirm), []byte(token)) != 1 {
		return nil, ErrNoWatch
	}
	_, err = s.opt.DB.ExecContext(ctx, `UPDATE watches SET confirm = '' WHERE account = ? AND email = ?`, w.Account, w.Email)
	w.Waiting, w.confirm = false, ""
	return w, err
}

// purposeStop is what a mail's link is good for.
const purposeStop = "stop"

// Stop ends the mails of a watch, by the link in one of them; the webhook goes on.
func (s *Watches) Stop(ctx context.Context, id, token string) (*Watch, error) {
	w, err := s.byID(ctx, id)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(w.token(purposeStop)), []byte(token)) != 1 {
		return nil, ErrNoWatch
	}
	tx, err := s.opt.DB.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `UPDATE watches SET email = '', every = '', confirm = '' WHERE id = ?`, id); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM watch_deliveries WHERE watch = ? AND channel = ?`, id, byMail); err != nil {
		return nil, err
	}
	return w, tx.Commit()
}
