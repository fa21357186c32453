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
	"sheaf/internal/peer"
	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// entry is the row of an act that is under way.
type entry struct {
	log *Log

	mu      sync.Mutex // guards the following
	row     Row        // has an ID once it is written as Begun
	written bool       // the row was written in the transaction of the act
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

// Note copies r's actor, act, object and reason, as far as they are set, to the row of the act that
// is under way.
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

// About notes only an object: what, such as "account", and its name, such as "alice".
func About(ctx context.Context, what, name string) { Note(ctx, Row{Object: what + " " + name}) }

// Begin writes the row of the act that is under way, before the act changes anything. Handler calls
// Begin before the handlers of known actors; a handler that finds out the actor by itself must call
// it. If Begin fails, the handler must change nothing and return Begin's error, a 503 or 429. If no
// act is under way, as in tests, Begin does nothing.
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

// Write completes the row of the act that is under way, or writes it, in the act's own transaction
// tx. The row says that the act has succeeded. If no act is under way, Write does nothing.
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

// end completes the row, or writes it if Begin did not write it. The caller holds mu.
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

// ByMethod returns the act for an HTTP method. It is for routes that name no act.
func ByMethod(method string) Act {
	switch method {
	case http.MethodPost:
		return Add
	case http.MethodDelete:
		return Remove
	}
	return Change
}

// Handler writes a row for each request to next, except for GET, HEAD and OPTIONS requests if act
// is None. If the actor is known, Handler writes the row before it calls next; otherwise next must
// call Begin. Handler holds back the answer until the row is complete. If the log cannot be
// written, Handler does not call next; if the row cannot be completed afterwards, the answer says
// so. The row of an act that reads, such as a backup, is written before the answer begins.
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

// away logs err and returns the answer 503: the act cannot be recorded, and was not done.
func (l *Log) away(ctx context.Context, err error) error {
	l.log.ErrorContext(ctx, "the audit log is away", "err", err)
	p := problem.New(http.StatusServiceUnavailable, "audit_away", "the audit log cannot be written now, so nothing was done; try again in a moment")
	p.Next = time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	return p
}

// RefuseRow writes the row of a request that was refused before its handler was called. Such rows
// cannot fill the log unseen: passwords.Limiter bounds unknown clients, and rows of known clients
// name them.
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

// rowOf returns the row for a request. It leaves out path variables that the route calls secret or
// token.
func (l *Log) rowOf(r *http.Request, act Act) Row {
	path := r.URL.Path
	for _, name := range []string{"secret", "token"} { // variables of links in mails
		if v := mux.Vars(r)[name]; v != "" {
			path = strings.ReplaceAll(path, v, "…")
		}
	}
	row := Row{Kind: Visitor, Address: r.RemoteAddr, Act: act, Object: path, Request: peer.Request(r.Context())}
	if who := ActorOf(r.Context()); who.Kind != "" {
		row.Kind, row.Name = who.Kind, who.Name
	}
	return row
}

// finish completes the row of an act that has ended, or writes it, unless the act's transaction has
// done so. A request that was refused because its client is not known gets no row, unless it is a
// log-in or a join. Clients that guess too often get one row an hour for each network. Other acts
// of unknown clients are limited as in writeVisit.
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

// held keeps an answer in memory and sends it later. Answers of acts are small.
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

// Unwrap returns the writer below, for http.ResponseController.
func (h *held) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *held) send() {
	h.ResponseWriter.WriteHeader(h.status)
	h.ResponseWriter.Write(h.body.Bytes())
}

// reason returns why an act did not succeed: the answer's explanation, then the actor's own reason.
// If the answer explains nothing, it returns the actor's reason or, without one, the status.
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

// WithActor returns a context with a known actor. It also notes the actor in the row of the act
// that is under way.
func WithActor(ctx context.Context, kind Kind, name string) context.Context {
	who := Row{Kind: kind, Name: name}
	Note(ctx, who)
	return context.WithValue(ctx, actorKey{}, who)
}

// ActorOf returns the kind and the name that WithActor has put into the context. Both are empty if
// the actor is not known.
func ActorOf(ctx context.Context) Row {
	who, _ := ctx.Value(actorKey{}).(Row)
	return who
}
