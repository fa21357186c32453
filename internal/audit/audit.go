// Package audit keeps the log of people's and partners' acts: every act that changes something and
// every log-in, including failed and refused ones. Rows are deleted after the time that the
// settings say.
//
// Handler wraps the handlers of acts. It makes the row from the request. A handler that knows the
// actor, the object or the reason better adds them with Note.
//
// Every act has a row, whenever the process ends. Begin writes the row before the act, with the
// outcome Begun, and the row is completed once, when the act has ended. If a row stays Begun, the
// process ended first, and the act may have been carried out. Write instead completes or writes the
// row in the transaction of the act itself.
package audit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"sheaf/internal/db"
	"sheaf/internal/peer"
)

// Act says what was done, such as a log-in.
type Act string

// All acts. Row.Object names what an act changed.
const (
	None     Act = ""         // a handler that only reads
	Login    Act = "login"    // a log-in, or an attempt at one
	Logout   Act = "logout"   //
	Join     Act = "join"     // a robot joins by its token
	Add      Act = "add"      //
	Change   Act = "change"   //
	Remove   Act = "remove"   //
	Decide   Act = "decide"   // about hosts, batches, requests
	Order    Act = "order"    // robots are told to do something
	Publish  Act = "publish"  //
	Release  Act = "release"  // of the robots' program
	Takedown Act = "takedown" //
	Lift     Act = "lift"     // a take-down
	Import   Act = "import"   //
	Collect  Act = "collect"  // deletes what nothing needs, or does other upkeep
	Backup   Act = "backup"   //
	Restore  Act = "restore"  // a backup
)

// Acts returns all acts but None. Every row has one of them.
func Acts() []Act {
	return []Act{Login, Logout, Join, Add, Change, Remove, Decide, Order, Publish, Release, Takedown, Lift, Import, Collect, Backup, Restore}
}

// Kind says what an actor is, such as an operator.
type Kind string

const (
	Operator Kind = "operator"
	Account  Kind = "account"
	Robot    Kind = "robot"
	Visitor  Kind = "visitor" // somebody who is not known
	Command  Kind = "command" // a command of the program on the service's own machine; the name is that of the machine's user
)

// Kinds returns all kinds. Every row has one of them.
func Kinds() []Kind { return []Kind{Operator, Account, Robot, Visitor, Command} }

// Outcome is how an act ended.
type Outcome string

const (
	Begun   Outcome = "begun" // the act is under way, or the service ended before the act did
	OK      Outcome = "ok"
	Failed  Outcome = "failed"  // the act could not be done as asked
	Refused Outcome = "refused" // the actor may not do this, or has guessed too often
)

// Outcomes returns all outcomes. Every row has one of them.
func Outcomes() []Outcome { return []Outcome{Begun, OK, Failed, Refused} }

// Row is one act, or a visitor's equal acts within a minute.
type Row struct {
	ID      int64     `json:"id"` // set by the log; ascending
	At      time.Time `json:"at"`
	Kind    Kind      `json:"kind"`
	Name    string    `json:"name"`    // of the actor; empty: not known
	Address string    `json:"address"` // the client's IP address; empty: not known, or deleted after its time
	Act     Act       `json:"act"`
	Object  string    `json:"object"` // such as "account alice", or the path of the request
	Outcome Outcome   `json:"outcome"`
	Count   int64     `json:"count,omitempty"`   // number of acts, since acts that a visitor repeats within a minute are one row; 0 means 1
	Reason  string    `json:"reason,omitempty"`  // the actor's reason, and why the act failed or was refused
	Request string    `json:"request,omitempty"` // ID of the request, as in the log
}

// Limits for stored texts, in bytes. Longer texts are cut.
const (
	maxName   = 100
	maxObject = 400
	maxReason = 1000
)

// short cuts a text that is longer than most bytes, between characters, and ends it with "…". It
// replaces bytes that are not UTF-8, and zero bytes, which PostgreSQL refuses.
func short(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= most {
		return text
	}
	const cut = "…"
	most -= len(cut)
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + cut
}

// Options of New. DB is needed.
type Options struct {
	DB  *sql.DB
	Log *slog.Logger // gets a line for each row that could not be written; nil: discards

	// Slower multiplies beginTime and readyTime, for a slow database; 0 means 1.
	Slower int
}

// Log is the audit log. Its methods may be called from many goroutines at once. A nil Log keeps
// nothing.
type Log struct {
	db    *sql.DB
	log   *slog.Logger
	later chan Row // log-ins of programs, for Run to write

	// After, if set, is called after each successful act, before its answer is sent. Set it before
	// requests come.
	After func(context.Context)

	slower time.Duration // factor of beginTime and readyTime

	mu       sync.Mutex             // guards the following
	logins   map[loginKey]time.Time // when a row of such a log-in was last written
	visitors map[netip.Prefix]int   // rows of unknown clients since the counts were last cleared, by network
	everyone int                    // sum of visitors
	visits   map[visit]int64        // IDs of the rows of visitors' acts in the current minute
	minute   int64                  // the minute of visits, since 1970
}

// New returns the log in opt.DB. The database's migrations must have run.
func New(opt Options) *Log {
	return &Log{db: opt.DB, log: cmp.Or(opt.Log, slog.New(slog.DiscardHandler)), later: make(chan Row, waiting), slower: time.Duration(max(1, opt.Slower)), logins: make(map[loginKey]time.Time), visitors: make(map[netip.Prefix]int), visits: make(map[visit]int64)}
}

// Write writes a row. It is durable when Write returns nil.
func (l *Log) Write(ctx context.Context, r Row) error {
	if l == nil {
		return nil
	}
	_, err := Insert(ctx, l.db, r)
	return err
}

// Insert writes a row with on, a database or a transaction, and returns the row's ID.
func Insert(ctx context.Context, on db.Queryer, r Row) (id int64, err error) {
	if r.At.IsZero() {
		r.At = time.Now()
	}
	address := ""
	if a := peer.Addr(r.Address); a.IsValid() {
		address = a.String()
	}
	columns, args := "", []any{db.Millis(r.At), address, short(r.Request, maxName)}
	if r.Outcome == Begun {
		columns, args = ", begun", append(args, 1)
		r.Outcome = Failed
	}
	said, err := r.said()
	if err != nil {
		return 0, err
	}
	err = on.QueryRowContext(ctx, `INSERT INTO audit (at, address, request`+columns+`, kind, name, act, object, outcome, reason) VALUES `+db.Tuple(len(args)+len(said))+` RETURNING id`,
		append(args, said...)...).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("audit log: %w", err)
	}
	return id, nil
}

// complete completes the row of an act that has begun. It returns false if there is no such row.
func complete(ctx context.Context, on db.Queryer, id int64, r Row) (bool, error) {
	said, err := r.said()
	if err != nil {
		return false, err
	}
	err = on.QueryRowContext(ctx, `UPDATE audit SET begun = 0, kind = ?, name = ?, act = ?, object = ?, outcome = ?, reason = ? WHERE id = ? AND begun = 1 RETURNING id`,
		append(said, id)...).Scan(&id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("audit log: %w", err)
	}
	return true, nil
}

// said returns the values of the columns that a handler can change: kind, name, act, object,
// outcome, reason.
func (r *Row) said() ([]any, error) {
	if !slices.Contains(Acts(), r.Act) || !slices.Contains(Kinds(), r.Kind) || !slices.Contains(Outcomes(), r.Outcome) {
		return nil, fmt.Errorf("audit log: %q by %q with outcome %q is no act", r.Act, r.Kind, r.Outcome)
	}
	return []any{string(r.Kind), short(r.Name, maxName), string(r.Act), short(r.Object, maxObject), string(r.Outcome), short(r.Reason, maxReason)}, nil
}

// ready returns an error if the database does not answer a query about the log in time.
func (l *Log) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime*l.slower)
	defer cancel()
	var last int64
	return l.db.QueryRowContext(ctx, `SELECT COALESCE(MAX(id), 0) FROM audit`).Scan(&last)
}

// Keeping says how long rows and addresses are kept. 0 means for ever.
type Keeping struct {
	Rows      time.Duration `mapstructure:"keep" want:"at least 0s"`
	Addresses time.Duration `mapstructure:"addresses" want:"at least 0s"` // how long clients' addresses are kept in the rows
}

// trim deletes rows, and addresses in rows, that were kept longer than k says. Old rows stay until
// the log has newer rows that are a day old.
func (l *Log) trim(ctx context.Context, k Keeping, now time.Time) error {
	if k.Rows > 0 {
		// A row goes when it was kept so long before the newest row that is a day old, give or take
		// a day. So a clock that is ahead loses nothing before the log was written by it for a day.
		const day = 24 * time.Hour
		_, err := l.db.ExecContext(ctx, `DELETE FROM audit WHERE at < ? AND at < (SELECT MAX(at) FROM audit WHERE at <= ?) - ?`,
			db.Millis(now.Add(-k.Rows)), db.Millis(now.Add(-day)), (k.Rows - day).Milliseconds())
		if err != nil {
			return fmt.Errorf("audit log: drop old rows: %w", err)
		}
	}
	if k.Addresses > 0 {
		_, err := l.db.ExecContext(ctx, `UPDATE audit SET address = '' WHERE address <> '' AND at < ?`, db.Millis(now.Add(-k.Addresses)))
		if err != nil {
			return fmt.Errorf("audit log: drop old addresses: %w", err)
		}
	}
	return nil
}

// Run writes the log-ins of programs until ctx ends. It also deletes rows and addresses that have
// been kept long enough, at once and every hour. It logs errors and goes on.
func (l *Log) Run(ctx context.Context, k Keeping) error {
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	for {
		if err := l.trim(ctx, k, time.Now()); err != nil && ctx.Err() == nil {
			l.log.ErrorContext(ctx, "audit log not trimmed", "err", err)
		}
		l.forget(time.Now())
		for trim := false; !trim; {
			select {
			case <-ctx.Done():
				l.flush(ctx)
				return nil
			case r := <-l.later:
				l.writeLater(ctx, r)
			case <-hourly.C:
				trim = true
			}
		}
	}
}

// flush writes the log-ins that still wait when the service stops.
func (l *Log) flush(ctx context.Context) {
	for {
		select {
		case r := <-l.later:
			l.writeLater(ctx, r)
		default:
			return
		}
	}
}
