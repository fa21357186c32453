package audit

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"sheaf/internal/db"
	"sheaf/internal/logs"
	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// entry is the row of an act that is under way.
type entry struct {
	log *Log

	mu      sync.Mutex // guards the following
	row     Row        // with an ID once it is written as begun
	written bool       // in the transaction of the act
}

type entryKey struct{}

func entryOf(ctx context.Context) *entry {
	e, _ := ctx.Value(entryKey{}).(*entry)
	return e
}

// actOf returns the act that is under way; None if there is none.
func actOf(ctx context.Context) Act {
	e := entryOf(ctx)
	if e == nil {
		return None
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.row.Act
}

// Note adds to the row of the act that is under way what r has of actor, act, object and reason.
func Note(ctx context.Context, r Row) {
	e := entryOf(ctx)
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Kind != "" {
		e.row.Kind, e.row.Name = r.Kind, r.Name
	}
	e.row.Act = cmp.Or(r.Act, e.row.Act)
	e.row.Object = cmp.Or(r.Object, e.row.Object)
	e.row.Reason = cmp.Or(r.Reason, e.row.Reason)
}

// About is Note for an object alone, such as "account", "alice".
func About(ctx context.Context, what, name string) { Note(ctx, Row{Object: what + " " + name}) }

// Begin writes the row of the act that is under way, with what is known of it so far, before
// anything is changed. Handlers that find out by themselves who may act call it when they have; for
// all others it was called before. If it fails, they change nothing and return its error, a 503 or
// 429. It does nothing where no act is under way, as in tests of the rooms below.
func Begin(ctx context.Context) error {
	e := entryOf(ctx)
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.row.ID != 0 {
		return nil
	}
	row := e.row
	if row.Kind == Visitor && !e.log.admit(row.Address) {
		return problem.New(http.StatusTooManyRequests, "too_many_acts", "too much came from this address within an hour; try again later")
	}
	row.Outcome = Begun
	bounded, cancel := context.WithTimeout(ctx, beginTime*e.log.slower)
	defer cancel()
	id, err := Insert(bounded, e.log.db, row)
	if err != nil {
		return e.log.away(ctx, err)
	}
	e.row.ID = id
	return nil
}

// Write completes the row of the act that is under way, which succeeds, in the act's own
// transaction, or writes it there. If no act is under way, it does nothing.
func Write(ctx context.Context, tx *sql.Tx) error {
	e := entryOf(ctx)
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	row := e.row
	row.Outcome = OK
	if err := e.end(ctx, tx, row); err != nil {
		return err
	}
	e.written = true
	return nil
}

// end completes the row, or writes it if it was not begun. The caller holds mu.
func (e *entry) end(ctx context.Context, on db.Queryer, row Row) error {
	if e.row.ID != 0 {
		if done, err := complete(ctx, on, e.row.ID, row); done || err != nil {
			return err
		}
	}
	_, err := Insert(ctx, on, row)
	return err
}

// Reads reports whether a method changes nothing.
func Reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// ByMethod returns the act that a method stands for, where the route says none.
func ByMethod(method string) Act {
	switch method {
	case http.MethodPost:
		return Add
	case http.MethodDelete:
		return Remove
	}
	return Change
}

// Handler writes a row for each request that next answers, except those that read by a route whose
// act is None. If it is known who asks, the row is written before next is called; otherwise next
// calls Begin. The answer is held back until the row is complete. If the log is away, next is not
// called; if the row cannot be completed after all, the answer says so. The row of an act that
// reads, such as a backup, is written before the answer begins.
func (l *Log) Handler(act Act, next http.Handler) http.Handler {
	if l == nil {
		return next
	}
	return problem.Handler(l.log, func(w http.ResponseWriter, r *http.Request) error {
		act := act
		reads := Reads(r.Method)
		if act == None && reads {
			next.ServeHTTP(w, r)
			return nil
		}
		if act == None {
			act = ByMethod(r.Method)
		}
		e := &entry{log: l, row: l.rowOf(r, act)}
		ctx := context.WithValue(r.Context(), entryKey{}, e)
		if reads && act != Login { // an answer may be long
			e.row.Outcome = OK
			if err := l.Write(ctx, e.row); err != nil {
				return l.away(ctx, err)
			}
			next.ServeHTTP(w, r)
			return nil
		}
		if e.row.Kind != Visitor {
			if err := Begin(ctx); err != nil {
				return err
			}
		} else if err := l.ready(ctx); err != nil {
			return l.away(ctx, err)
		}
		answer := &held{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r.WithContext(ctx))
		if err := l.finish(ctx, e, answer); err != nil {
			l.log.ErrorContext(ctx, "an act is not in the audit log", "row", e.row, "status", answer.status, "err", err)
			for name := range w.Header() {
				w.Header().Del(name)
			}
			return problem.New(http.StatusInternalServerError, "not_recorded",
				"the audit log could not be completed; look whether the act was carried out before you repeat it")
		}
		if l.After != nil && answer.status < 400 {
			l.After(ctx)
		}
		answer.send()
		return nil
	})
}

// away returns the answer that an act cannot be recorded, and was not done.
func (l *Log) away(ctx context.Context, err error) error {
	l.log.ErrorContext(ctx, "the audit log is away", "err", err)
	p := problem.New(http.StatusServiceUnavailable, "audit_away", "the audit log cannot be written now, so nothing was done; try again in a moment")
	p.Next = time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	return p
}

// RefuseRow writes the row of a request that was refused before its handler. It is bounded, as
// whoever is refused may try often: passwords.Limiter bounds those who are not known, and the
// others have names.
func (l *Log) RefuseRow(r *http.Request, act Act, who Row, reason string) error {
	if l == nil || act == None && Reads(r.Method) {
		return nil
	}
	if act == None {
		act = ByMethod(r.Method)
	}
	row := l.rowOf(r, act)
	row.Kind, row.Name, row.Outcome, row.Reason = who.Kind, who.Name, Refused, reason
	return l.Write(r.Context(), row)
}

// rowOf returns what a request says of its act. What a route calls a secret or a token is not
// written.
func (l *Log) rowOf(r *http.Request, act Act) Row {
	path := r.URL.Path
	for _, name := range []string{"secret", "token"} { // of links in mails
		if v := mux.Vars(r)[name]; v != "" {
			path = strings.ReplaceAll(path, v, "…")
		}
	}
	row := Row{Kind: Visitor, Address: r.RemoteAddr, Act: act, Object: path, Request: logs.Request(r.Context())}
	if who := ActorOf(r.Context()); who.Kind != "" {
		row.Kind, row.Name = who.Kind, who.Name
	}
	return row
}

// finish completes the row of an act that has ended, or writes it, unless the act's transaction has
// done so. Requests of clients that are not known, and that were therefore refused, have no row. Of
// those that guess too often, one an hour from each network is written, and of all others a number
// that nobody reaches by accident.
func (l *Log) finish(ctx context.Context, e *entry, answer *held) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	row := e.row
	begun, visitor := row.ID != 0, row.Kind == Visitor
	switch status := answer.status; {
	case status == http.StatusUnauthorized && visitor && !begun && row.Act != Join && row.Act != Login:
		return nil
	case status == http.StatusTooManyRequests && visitor && !begun && !l.fresh(loginKey{Visitor, "", peer.Network(peer.Addr(row.Address)), Refused}, time.Now()):
		return nil
	case status < 400 && e.written:
		return nil
	case status < 400:
		row.Outcome = OK
	case status == http.StatusUnauthorized, status == http.StatusForbidden && row.Act != Login, status == http.StatusTooManyRequests:
		row.Outcome = Refused
	default:
		row.Outcome = Failed
	}
	if row.Outcome != OK {
		row.Reason = answer.reason(row.Reason)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	if visitor && !begun {
		return l.writeVisit(bounded, row)
	}
	return e.end(bounded, l.db, row)
}

// held is an answer that is sent later. Answers of acts are small.
type held struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	begun  bool
}

func (h *held) WriteHeader(status int) {
	if !h.begun {
		h.status, h.begun = status, true
	}
}

func (h *held) Write(p []byte) (int, error) {
	h.begun = true
	return h.body.Write(p)
}

// Unwrap is for http.ResponseController.
func (h *held) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *held) send() {
	h.ResponseWriter.WriteHeader(h.status)
	h.ResponseWriter.Write(h.body.Bytes())
}

// reason returns why an act did not succeed: what the answer says, and what the actor gave as
// reason.
func (h *held) reason(given string) string {
	var p wire.Problem
	if json.Unmarshal(h.body.Bytes(), &p) != nil {
		return cmp.Or(given, http.StatusText(h.status))
	}
	said := cmp.Or(p.Detail, p.Title)
	if given == "" {
		return said
	}
	return said + "; given as reason: " + given
}

type actorKey struct{}

// WithActor returns the context of somebody who is known. It also notes them in the row of an act
// that is under way.
func WithActor(ctx context.Context, kind Kind, name string) context.Context {
	who := Row{Kind: kind, Name: name}
	Note(ctx, who)
	return context.WithValue(ctx, actorKey{}, who)
}

// ActorOf returns kind and name of who acts, as WithActor has noted it.
func ActorOf(ctx context.Context) Row {
	who, _ := ctx.Value(actorKey{}).(Row)
	return who
}
