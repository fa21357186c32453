package watch

import (
	"cmp"
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/internal/db"
	"sheaf/internal/loop"
	"sheaf/internal/mailer"
	"sheaf/serve/account"
	"sheaf/serve/records"
)

// Errors of Watches.
var (
	ErrNoWatch = errors.New("no such watch")
	ErrMany    = errors.New("too many watches")
	ErrScope   = errors.New("the host is not within the account's scope")
	ErrNoMail  = errors.New("this service sends no mails")
)

// Options of Watches. DB, Records and Account are required.
type Options struct {
	DB      *sql.DB
	Records *records.Records
	// Account returns the account of a name; nil if it was deleted. Its watches then rest.
	Account func(ctx context.Context, name string) (*account.Account, error)

	Base  string // the service's URL for consumers, without a slash at the end
	Limit int    // limit for an account's watches; default 1,000

	Mail         *mailer.Server // nil: no mails are sent
	Unconfirmed  bool           // addresses need not be confirmed: the operator knows all consumers
	PrivateHooks bool           // webhooks may have private and loopback addresses

	Zone *time.Location // for the hours and days of mails; default UTC
	Poll time.Duration  // interval of looking for publications and for deliveries that are due; default MaxPoll
	Log  *slog.Logger
	Now  func() time.Time // default time.Now
}

const defaultLimit = 1000

// maxOnce limits how many pages an account may have saved within a day.
const maxOnce = 100

// MaxPoll is the default of Options.Poll. It is also how late a notice should come at most.
const MaxPoll = 2 * time.Second

// Watches keeps consumers' watches in a database. Its methods may be called concurrently, and in
// many processes on one database.
type Watches struct {
	opt       Options
	table     *table
	follower  *follower
	deliverer *deliverer
}

// New returns the watches in the tables of opt.DB. Run finds changes and delivers notices.
func New(opt Options) (*Watches, error) {
	if opt.DB == nil || opt.Records == nil || opt.Account == nil {
		return nil, errors.New("watch: options lack a database, records or accounts")
	}
	opt.Limit = cmp.Or(opt.Limit, defaultLimit)
	opt.Zone = cmp.Or(opt.Zone, time.UTC)
	opt.Poll = cmp.Or(opt.Poll, MaxPoll)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Now == nil {
		opt.Now = time.Now
	}
	t := &table{opt.DB, opt.Base, opt.Now}
	return &Watches{
		opt: opt, table: t,
		follower: &follower{table: t, records: opt.Records, account: opt.Account, zone: opt.Zone},
		deliverer: &deliverer{
			table: t, log: opt.Log,
			hooks: &hooks{table: t, client: hookClient(opt.PrivateHooks)},
			mails: &mails{table: t, server: opt.Mail, zone: opt.Zone},
		},
	}, nil
}

// Add begins a watch. It fails with ErrWish, ErrScope, ErrMany or ErrNoMail. If the account already
// has a watch that waits to save the page once, Add returns that watch.
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
	if _, err := s.follower.place(ctx); err != nil { // from now on nothing is missed, even if nobody follows yet
		return nil, err
	}
	w.ID, w.Account, w.Secret, w.Created = "w"+random(8), a.Name, newSecret(), s.opt.Now().UTC().Truncate(time.Millisecond)
	if w.Email != "" && !s.opt.Unconfirmed {
		w.confirm = random(16)
	}
	if w.Once {
		if waits, err := s.table.watches(ctx, `account = ? AND url = ? AND once = 1 AND saved = 0`, a.Name, w.URL); err != nil || len(waits) > 0 {
			return one(waits, err)
		}
	}
	err = db.Transact(ctx, s.opt.DB, nil, func(tx *sql.Tx) error {
		var have, known, once int
		err := tx.QueryRowContext(ctx, `SELECT COUNT(*), COUNT(CASE WHEN email = ? AND confirm = '' THEN 1 END), COUNT(CASE WHEN once = 1 AND created > ? THEN 1 END)
			FROM watches WHERE account = ?`, w.Email, db.Millis(w.Created.AddDate(0, 0, -1)), a.Name).Scan(&have, &known, &once)
		switch {
		case err != nil:
			return err
		case have >= s.opt.Limit:
			return fmt.Errorf("%w: the account has %d, which is the limit", ErrMany, have)
		case w.Once && once >= maxOnce:
			return fmt.Errorf("%w: the account has had %d pages saved within a day, which is the limit", ErrMany, once)
		case known > 0:
			w.confirm = "" // the address has been confirmed for another watch
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO watches (`+watchColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', '', ?, 0)`,
			w.ID, w.Account, w.Kind, w.Host, w.URL, w.Address, w.Body, w.Media, w.Email, w.Every, w.confirm, w.Webhook, w.Secret, db.Millis(w.Created), map[bool]int{true: 1}[w.Once])
		if err == nil && w.confirm != "" {
			err = insertDelivery(ctx, tx, delivery{id: w.ID + "-confirm", watch: w.ID, channel: byMail, due: w.Created})
		}
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT `+collection+` FROM watches WHERE id = ?`, w.ID).Scan(&w.Collection)
	})
	if err != nil {
		return nil, err
	}
	w.Waiting = w.confirm != ""
	return w, nil
}

// List returns an account's watches, oldest first.
func (s *Watches) List(ctx context.Context, account string) ([]*Watch, error) {
	list, err := s.table.watches(ctx, `account = ? ORDER BY created, id`, account)
	if err != nil {
		return nil, err
	}
	return list, s.addFailing(ctx, list, `account = ?`, account)
}

// Troubled returns watches of all accounts whose notices could not be delivered, or whose mails or
// calls were stopped: the first limit watches with greater IDs than after, by ID.
func (s *Watches) Troubled(ctx context.Context, after string, limit int) ([]*Watch, error) {
	list, err := s.table.watches(ctx, `id > ? AND (mail_stopped <> '' OR hook_stopped <> '' OR
		id IN (SELECT watch FROM watch_deliveries WHERE error <> '' AND state <> ?)) ORDER BY id LIMIT ?`, after, sent, limit)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list, s.addFailing(ctx, list, `id >= ? AND id <= ?`, list[0].ID, list[len(list)-1].ID)
}

// addFailing sets Watch.Failing. where picks the listed watches, and may pick more.
func (s *Watches) addFailing(ctx context.Context, list []*Watch, where string, args ...any) error {
	byID := make(map[string]*Watch, len(list))
	for _, w := range list {
		byID[w.ID] = w
	}
	return db.Each(ctx, s.opt.DB, func(rows *sql.Rows) error {
		var id, why string
		var by channel
		var is state
		var due time.Time
		if err := rows.Scan(&id, &by, &is, db.At(&due), &why); err != nil {
			return err
		}
		w := byID[id]
		if w == nil {
			return nil
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
			return nil
		}
		if f.Waiting++; f.Next.IsZero() {
			f.Next = due
		}
		return nil
	}, `SELECT d.watch, d.channel, d.state, d.due, d.error FROM watch_deliveries d
		WHERE d.watch IN (SELECT id FROM watches WHERE `+where+`) AND d.error <> '' AND d.state <> ? ORDER BY d.watch, d.channel, d.due, d.id`, append(args, sent)...)
}

// Deliveries counts the notices, of all watches, that one channel has not delivered.
type Deliveries struct {
	Channel string    // mail or webhook
	Waiting int64     // to be sent for the first time
	Failing int64     // that have failed and will be tried again
	GivenUp int64     // that have failed for good, within the last 30 days
	Due     time.Time // when the first delivery that waits or fails is, or was, to be sent; zero: none
}

// Deliveries returns the counts of each channel, over all accounts.
func (s *Watches) Deliveries(ctx context.Context) ([]Deliveries, error) {
	return db.List(ctx, s.opt.DB, func(rows *sql.Rows, d *Deliveries) error {
		return rows.Scan(&d.Channel, &d.Waiting, &d.Failing, &d.GivenUp, db.At(&d.Due))
	}, `SELECT channel, COUNT(CASE WHEN state = ?1 AND error = '' THEN 1 END), COUNT(CASE WHEN state = ?1 AND error <> '' THEN 1 END),
			COUNT(CASE WHEN state = ?2 THEN 1 END), COALESCE(MIN(CASE WHEN state = ?1 THEN due END), 0)
		FROM watch_deliveries WHERE state IN (?1, ?2) GROUP BY channel ORDER BY channel`, waiting, dead)
}

// Notices returns an account's latest notices, newest first, or those of one watch if it is named.
func (s *Watches) Notices(ctx context.Context, account, watch string, limit int) ([]*Notice, error) {
	const latest = ` ORDER BY found DESC, id LIMIT ?`
	if watch == "" {
		return s.table.notices(ctx, `account = ?`+latest, account, limit)
	}
	return s.table.notices(ctx, `account = ? AND watch = ?`+latest, account, watch, limit)
}

// Get returns an account's watch. It fails with ErrNoWatch.
func (s *Watches) Get(ctx context.Context, account, id string) (*Watch, error) {
	list, err := s.table.watches(ctx, `account = ? AND id = ?`, account, id)
	if err == nil {
		err = s.addFailing(ctx, list, `account = ?`, account)
	}
	return one(list, err)
}

// Remove deletes an account's watch with its notices and deliveries. It fails with ErrNoWatch.
func (s *Watches) Remove(ctx context.Context, account, id string) error {
	if _, err := s.Get(ctx, account, id); err != nil {
		return err
	}
	return db.Transact(ctx, s.opt.DB, nil, func(tx *sql.Tx) error {
		for _, q := range []string{`DELETE FROM watches WHERE id = ?`, `DELETE FROM watch_notices WHERE watch = ?`, `DELETE FROM watch_deliveries WHERE watch = ?`} {
			if _, err := tx.ExecContext(ctx, q, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// Confirm notes that the reader of a watch's address wants mails from this and the account's other
// watches with the address. It may be repeated. It fails with ErrNoWatch if the token is wrong.
func (s *Watches) Confirm(ctx context.Context, id, token string) (*Watch, error) {
	w, err := s.table.watch(ctx, id)
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

// purposeStop is the purpose of the token in a mail's link.
const purposeStop = "stop"

// Stop ends the mails of a watch, by the link in one of the mails. The watch's webhook stays.
func (s *Watches) Stop(ctx context.Context, id, token string) (*Watch, error) {
	w, err := s.table.watch(ctx, id)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(w.token(purposeStop)), []byte(token)) != 1 {
		return nil, ErrNoWatch
	}
	return w, db.Transact(ctx, s.opt.DB, nil, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE watches SET email = '', every = '', confirm = '' WHERE id = ?`, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM watch_deliveries WHERE watch = ? AND channel = ?`, id, byMail)
		return err
	})
}

// Run follows the change feed and delivers notices until ctx ends. It may run in several processes
// on one database at once.
func (s *Watches) Run(ctx context.Context) error {
	const sweepEvery = 6 * time.Hour
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.repeat(ctx, s.opt.Poll, "looking at what was published", s.follower.step) })
	g.Go(func() error { return s.repeat(ctx, s.opt.Poll, "sending", s.deliverer.deliverDue) })
	g.Go(func() error { return s.repeat(ctx, sweepEvery, "deleting old notices", s.table.sweep) })
	return g.Wait()
}

// repeat calls step until ctx ends. It pauses after an error, and when there is no more to do at
// once.
func (s *Watches) repeat(ctx context.Context, pause time.Duration, what string, step func(context.Context) (more bool, err error)) error {
	for ctx.Err() == nil {
		more, err := step(ctx)
		if err != nil && ctx.Err() == nil {
			s.opt.Log.ErrorContext(ctx, "watch: "+what+" failed and will be repeated", "err", err)
		}
		if more && err == nil {
			continue
		}
		loop.Pause(ctx, pause)
	}
	return nil
}

// table reads the tables of watches and notices. Watches writes watches, follower writes notices.
type table struct {
	db   *sql.DB
	base string // see Options.Base
	now  func() time.Time
}

const watchColumns = `id, account, kind, host, url, address, body, media, email, every, confirm, webhook, secret, created, mail_stopped, hook_stopped, once, saved`

// collection is a watch's Collection. The table hosts belongs to manager/hosts.
const collection = `COALESCE((SELECT CASE WHEN h.state = 'accepted' AND h.waiting = 0 THEN 'collected' ELSE h.state END
	FROM hosts h WHERE h.name = watches.host), 'requested')`

// watches returns the watches that the SQL condition where selects.
func (t *table) watches(ctx context.Context, where string, args ...any) ([]*Watch, error) {
	return db.List(ctx, t.db, func(rows *sql.Rows, to **Watch) error {
		w := new(Watch)
		*to = w
		err := rows.Scan(&w.ID, &w.Account, &w.Kind, &w.Host, &w.URL, &w.Address, &w.Body, &w.Media, &w.Email, &w.Every, &w.confirm, &w.Webhook, &w.Secret,
			db.At(&w.Created), &w.MailStopped, &w.HookStopped, &w.Once, db.At(&w.Saved), &w.Collection)
		w.Waiting = w.confirm != ""
		return err
	}, `SELECT `+watchColumns+`, `+collection+` FROM watches WHERE `+where, args...)
}

// watch returns the watch with an ID, of any account. It fails with ErrNoWatch.
func (t *table) watch(ctx context.Context, id string) (*Watch, error) {
	return one(t.watches(ctx, `id = ?`, id))
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

const noticeColumns = `id, watch, account, what, url, title, at, before, edition, found`

// notices returns the notices that the SQL condition where selects, with their links.
func (t *table) notices(ctx context.Context, where string, args ...any) ([]*Notice, error) {
	return db.List(ctx, t.db, func(rows *sql.Rows, to **Notice) error {
		n := new(Notice)
		*to = n
		err := rows.Scan(&n.ID, &n.Watch, &n.Account, &n.What, &n.URL, &n.Title, db.At(&n.At), db.At(&n.Before), &n.Edition, db.At(&n.Found))
		n.link(t.base)
		return err
	}, `SELECT `+noticeColumns+` FROM watch_notices WHERE `+where, args...)
}

// notice returns a notice; nil if it was deleted.
func (t *table) notice(ctx context.Context, id string) (*Notice, error) {
	list, err := t.notices(ctx, `id = ?`, id)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

// keepSent is how long notices, deliveries that were sent or given up, and watches that ask
// for one visit are kept.
const keepSent = 30 * 24 * time.Hour

// sweep deletes notices, deliveries, webhooks' rests and watches for one visit that are older than
// keepSent.
func (t *table) sweep(ctx context.Context) (more bool, err error) {
	before := db.Millis(t.now().Add(-keepSent))
	for _, q := range []string{`DELETE FROM watch_deliveries WHERE state <> 'waiting' AND due < ?`, `DELETE FROM watch_notices WHERE found < ?`, `DELETE FROM watch_hooks WHERE resume < ?`,
		`DELETE FROM watches WHERE once = 1 AND created < ?`} {
		if _, err := t.db.ExecContext(ctx, q, before); err != nil {
			return false, fmt.Errorf("watch: %w", err)
		}
	}
	return false, nil
}
