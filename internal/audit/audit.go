// Package audit keeps the log of what people and partners did with the service: every act that
// changes something, every log-in, and what of it failed or was refused. Rows are only added. They
// go when they have been kept for as long as the settings say.
//
// Handler stands before the handlers of acts and writes their rows. What a handler knows better than
// the request says (who it is, what the act is about, why) it adds with Note. An act in the database
// is written in its own transaction, by Write.
package audit

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"sheaf/internal/db"
	"sheaf/internal/peer"
)

// Act is what was done.
type Act string

// All acts. Objects say to what they were done.
const (
	None     Act = ""         // a handler that only reads
	Login    Act = "login"    // also: tried to
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
	Collect  Act = "collect"  // what nothing needs, and other upkeep
	Backup   Act = "backup"   //
	Restore  Act = "restore"  // a backup
)

// Acts returns all acts.
func Acts() []Act {
	return []Act{Login, Logout, Join, Add, Change, Remove, Decide, Order, Publish, Release, Takedown, Lift, Import, Collect, Backup, Restore}
}

// Kind is what an actor is.
type Kind string

const (
	Operator Kind = "operator"
	Account  Kind = "account"
	Robot    Kind = "robot"
	Visitor  Kind = "visitor" // nobody known
	Command  Kind = "command" // of the program, on the service's own machine; the name is the user's there
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Operator, Account, Robot, Visitor, Command} }

// Outcome is how an act ended.
type Outcome string

const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"  // it could not be done as asked
	Refused Outcome = "refused" // the actor may not, or has guessed too often
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{OK, Failed, Refused} }

// Row is one act.
type Row struct {
	ID      int64     `json:"id"` // set by the log; ascending
	At      time.Time `json:"at"`
	Kind    Kind      `json:"kind"`
	Name    string    `json:"name"`    // of the actor; empty: not known
	Address string    `json:"address"` // the client's IP address; empty: not known, or kept long enough
	Act     Act       `json:"act"`
	Object  string    `json:"object"` // such as "account alice", or the path of the request
	Outcome Outcome   `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`  // as the actor gave it; of what did not succeed, why
	Request string    `json:"request,omitempty"` // ID of the request, as a proxy gave it in X-Request-Id
}

// Lengths of texts that are kept, in bytes.
const (
	maxName   = 100
	maxObject = 400
	maxReason = 1000
)

// short cuts a text to a number of bytes, at the end of a character. What is no UTF-8 is replaced,
// as are zero bytes, which PostgreSQL refuses.
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
	Log *slog.Logger // is told of rows that could not be written; nil: discards
}

// Log is the audit log. Its methods may be called from many goroutines at once. A nil Log keeps
// nothing.
type Log struct {
	db    *sql.DB
	log   *slog.Logger
	later chan Row // log-ins of programs, which Run writes

	mu     sync.Mutex             // guards logins
	logins map[loginKey]time.Time // when they were last written
}

// New keeps the log in a database, whose migrations must have run.
func New(opt Options) *Log {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Log{db: opt.DB, log: opt.Log, later: make(chan Row, waiting), logins: make(map[loginKey]time.Time)}
}

type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Write writes a row. It is durable when Write returns nil.
func (l *Log) Write(ctx context.Context, r Row) error {
	if l == nil {
		return nil
	}
	return insert(ctx, l.db, r)
}

func insert(ctx context.Context, on executor, r Row) error {
	if !slices.Contains(Acts(), r.Act) || !slices.Contains(Kinds(), r.Kind) || !slices.Contains(Outcomes(), r.Outcome) {
		return fmt.Errorf("audit log: %q by %q with outcome %q is no act", r.Act, r.Kind, r.Outcome)
	}
	if r.At.IsZero() {
		r.At = time.Now()
	}
	address := ""
	if a := peer.Addr(r.Address); a.IsValid() {
		address = a.String()
	}
	_, err := on.ExecContext(ctx, `INSERT INTO audit (at, kind, name, address, act, object, outcome, reason, request) VALUES `+db.Tuple(9),
		db.Millis(r.At), string(r.Kind), short(r.Name, maxName), address, string(r.Act), short(r.Object, maxObject), string(r.Outcome),
		short(r.Reason, maxReason), short(r.Request, maxName))
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

// ready fails if a row could not be written now.
func (l *Log) ready(ctx context.Context) error {
	var last int64
	return l.db.QueryRowContext(ctx, `SELECT COALESCE(MAX(id), 0) FROM audit`).Scan(&last)
}

// Keeping says how long the log is kept. 0 is for ever.
type Keeping struct {
	Rows      time.Duration
	Addresses time.Duration // clients' addresses, which are blanked then
}

// trim drops what has been kept long enough.
func (l *Log) trim(ctx context.Context, k Keeping, now time.Time) error {
	if k.Rows > 0 {
		if _, err := l.db.ExecContext(ctx, `DELETE FROM audit WHERE at < ?`, db.Millis(now.Add(-k.Rows))); err != nil {
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

// Run writes the log-ins of programs, and drops what has been kept long enough, at once and every
// hour, until ctx ends. Errors are logged; they pass by themselves.
func (l *Log) Run(ctx context.Context, k Keeping) error {
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	for {
		if err := l.trim(ctx, k, time.Now()); err != nil && ctx.Err() == nil {
			l.log.Error("audit log not trimmed", "err", err)
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

// flush writes the log-ins that wait, when the service stops.
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
