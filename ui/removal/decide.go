package removal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/upkeep"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/db"
	"sheaf/internal/loop"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/manager/hosts"
)

// Decision is an operator's decision about a request. It is the body of POST
// /v1/admin/removals/{id}.
type Decision struct {
	Grant    bool   `json:"grant"`
	Reason   string `json:"reason,omitempty" doc:"what the asker is told; required for a refusal"`
	Unproved bool   `json:"unproved,omitempty" doc:"grant it although nothing proves that the site is the asker's"`
	By       string `json:"by,omitempty" doc:"who decides"`
}

// Decide grants or refuses a request. It carries a grant out before it returns. If that fails, Run
// carries it out later. The asker is told of a refusal at once, and of a grant once it is carried
// out.
func (d *Desk) Decide(ctx context.Context, id string, by Decision) (*Request, error) {
	reason := strings.TrimSpace(by.Reason)
	if !by.Grant && reason == "" {
		return nil, ErrReason
	}
	state, act := Refused, "refused"
	if by.Grant {
		state, act = Granted, "granted"
	}
	var r *Request
	err := db.Transact(ctx, d.opt.DB, nil, func(tx *sql.Tx) (err error) {
		if r, err = d.get(ctx, tx, id); err != nil {
			return err
		}
		switch {
		case r.State != Open && r.State != Proved:
			return fmt.Errorf("request %s is %s: %w", id, r.State, ErrDecided)
		case by.Grant && r.State == Open && !by.Unproved:
			return ErrUnproved
		}
		r.State, r.Answer, r.Decided = state, reason, d.now()
		if _, err := tx.ExecContext(ctx, `UPDATE removals SET state = ?, answer = ?, decided = ? WHERE id = ?`, state, reason, db.Millis(r.Decided), id); err != nil {
			return err
		}
		if err := d.note(ctx, tx, id, by.By, act, reason); err != nil || by.Grant {
			return err
		}
		return d.opt.Mails.Add(ctx, tx, d.refusedLetter(r))
	})
	if err != nil {
		return nil, err
	}
	d.opt.Mails.Hurry()
	d.opt.Log.WarnContext(ctx, "operator decides about a removal", "removal", id, "target", r.Target, "decision", act, "reason", reason, "by", by.By)
	if !by.Grant {
		return r, nil
	}
	if err := d.carryOut(ctx, r); err != nil {
		return nil, fmt.Errorf("request %s is granted, and will be carried out later: %w", id, err)
	}
	return d.Get(ctx, id)
}

// carryOut carries a grant out. It can be repeated.
func (d *Desk) carryOut(ctx context.Context, r *Request) error {
	by, err := d.granter(ctx, r.ID)
	if err != nil {
		return err
	}
	t, reason := r.target(), r.takedownReason()
	switch r.Kind {
	case Host:
		err = d.opt.Hosts.RefuseHost(ctx, t.host)
	case Prefix:
		err = d.opt.Hosts.RefusePrefix(ctx, hosts.RefusedPrefix{URL: r.Target, By: by, Reason: reason})
	case Domain:
		err = d.opt.Hosts.RefuseDomain(ctx, hosts.RefusedDomain{Domain: t.host, By: by, Reason: reason})
	}
	if err == nil && r.Wish == Remove && r.Kind != Domain {
		_, err = d.opt.Takedowns.Take(ctx, t.stone(reason, by))
	}
	if err == nil {
		err = d.takeShown(ctx, r, by)
	}
	if err != nil {
		return err
	}
	err = db.Transact(ctx, d.opt.DB, nil, func(tx *sql.Tx) error {
		n, err := db.Exec(ctx, tx, `UPDATE removals SET carried = ? WHERE id = ? AND carried = 0`, db.Millis(d.now()), r.ID)
		if err != nil || n == 0 { // 0: another process was faster
			return err
		}
		if err := d.note(ctx, tx, r.ID, byService, "carried out", ""); err != nil {
			return err
		}
		if _, err := audit.Insert(ctx, tx, r.row(by)); err != nil {
			return err
		}
		return d.opt.Mails.Add(ctx, tx, d.grantedLetter(r))
	})
	d.opt.Mails.Hurry()
	return err
}

// row returns the audit log's row for a grant that was carried out. It looks as if the operator who
// granted it had taken the archives down, or refused the host to robots, by hand.
func (r *Request) row(by string) audit.Row {
	t := r.target()
	row := audit.Row{Kind: audit.Operator, Name: by, Act: audit.Takedown, Object: upkeep.ObjectOf(t.stone("", "")), Outcome: audit.OK, Reason: r.takedownReason()}
	if r.Kind == Domain {
		row.Object = "domain " + t.host
	}
	if r.Wish != Remove {
		row.Act = audit.Decide
	}
	return row
}

// takeShown takes down what a removal covers but does not name: the hosts of a domain, as long as
// robots are to leave it out, and a host's other ports unless the removal names a port.
func (d *Desk) takeShown(ctx context.Context, r *Request, by string) (err error) {
	t, reason := r.target(), r.takedownReason()
	switch {
	case r.Wish != Remove:
	case r.Kind == Domain:
		refused, err := d.opt.Hosts.RefusedDomains(ctx)
		if err != nil || !slices.ContainsFunc(refused, func(one hosts.RefusedDomain) bool { return one.Domain == t.host }) {
			return err
		}
		_, err = d.opt.Takedowns.TakeDomain(ctx, t.host, reason, by)
		return err
	case r.Kind == Host && !t.hasPort():
		_, err = d.opt.Takedowns.TakePorts(ctx, t.host, reason, by)
	}
	return err
}

// takedownReason returns the reason for a take-down that readers see. It contains nothing that the
// asker wrote.
func (r *Request) takedownReason() string { return "asked for by its owner (request " + r.ID + ")" }

// granter returns the name of the operator who granted a request.
func (d *Desk) granter(ctx context.Context, id string) (by string, err error) {
	err = d.opt.DB.QueryRowContext(ctx, `SELECT by_whom FROM removal_events WHERE removal = ? AND act = 'granted'`, id).Scan(&by)
	return by, err
}

// Run carries out grants that could not be carried out before. It takes down later publications of
// a removed domain, or of a removed host at another port. It also lets old requests expire, and
// forgets askers' networks.
func (d *Desk) Run(ctx context.Context) error {
	return loop.Every(ctx, d.opt.Poll, d.tidy, func(err error) { d.opt.Log.ErrorContext(ctx, "removals: some could not be looked after", "err", err) })
}

func (d *Desk) tidy(ctx context.Context) error {
	errs := []error{d.expire(ctx)}
	_, err := d.opt.DB.ExecContext(ctx, `UPDATE removals SET network = '' WHERE network <> '' AND created < ?`, db.Millis(d.now().Add(-day)))
	errs = append(errs, err)
	if !d.Decides() {
		return errors.Join(errs...)
	}
	granted, err := db.List(ctx, d.opt.DB, func(rows *sql.Rows, r *Request) error { return scan(rows, r) },
		`SELECT `+columns+` FROM removals WHERE state = ? AND (carried = 0 OR kind <> ? AND wish = ?)`, Granted, Prefix, Remove)
	errs = append(errs, err)
	for _, r := range granted {
		if r.Carried.IsZero() {
			errs = append(errs, d.carryOut(ctx, &r))
			continue
		}
		by, err := d.granter(ctx, r.ID)
		if err == nil {
			err = d.takeShown(ctx, &r, by)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Waiting counts requests that wait.
type Waiting struct {
	Open    int64     // for their proof
	Proved  int64     // for a decision
	Granted int64     // to be carried out
	Since   time.Time // when the first request that waits for a decision was proved; zero: none waits
}

// Waiting counts the requests that are not finished.
func (d *Desk) Waiting(ctx context.Context) (w Waiting, err error) {
	err = d.opt.DB.QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM removals WHERE state = ?),
		(SELECT COUNT(*) FROM removals WHERE state = ?),
		(SELECT COUNT(*) FROM removals WHERE state = ? AND carried = 0),
		(SELECT COALESCE(MIN(e.at), 0) FROM removals r JOIN removal_events e ON e.removal = r.id AND e.act = 'proved' WHERE r.state = ?)`,
		Open, Proved, Granted, Proved).Scan(&w.Open, &w.Proved, &w.Granted, db.At(&w.Since))
	return w, err
}

// expire ends requests that were not proved in time. A clock that was ahead may have ended a
// request too early: expire opens it again. A request from the future counts as made now.
func (d *Desk) expire(ctx context.Context) error {
	now := d.now()
	if _, err := d.opt.DB.ExecContext(ctx, `UPDATE removals SET created = ? WHERE created > ?`, db.Millis(now), db.Millis(now.Add(time.Minute))); err != nil {
		return err
	}
	if err := d.turn(ctx, Expired, Open, "reopened", `created >= ?`, now.Add(-life)); err != nil {
		return err
	}
	return d.turn(ctx, Open, Expired, "expired", `created < ?`, now.Add(-life))
}

// turn moves requests from one state to another. which is an SQL condition on their creation, with
// at as its argument. act is the step in their history.
func (d *Desk) turn(ctx context.Context, from, to State, act, which string, at time.Time) error {
	ids, err := db.Column[string](ctx, d.opt.DB, `SELECT id FROM removals WHERE state = ? AND `+which, from, db.Millis(at))
	if err != nil || len(ids) == 0 {
		return err
	}
	return db.Transact(ctx, d.opt.DB, nil, func(tx *sql.Tx) error {
		for _, id := range ids {
			n, err := db.Exec(ctx, tx, `UPDATE removals SET state = ?, code_hash = NULL WHERE id = ? AND state = ?`, to, id, from)
			if err == nil && n > 0 {
				err = d.note(ctx, tx, id, byService, act, "")
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// RequestList answers GET /v1/admin/removals.
type RequestList struct {
	Requests []Request `json:"requests"`
}

// RequestDocument answers GET and POST /v1/admin/removals/{id}.
type RequestDocument struct {
	Request
	History []Event `json:"history"`
}

const listed = 1000 // requests in one answer

// ListQuery is the query of GET /v1/admin/removals.
type ListQuery struct {
	States []State `query:"state" doc:"open, proved, granted, refused or expired; may be given several times"`
}

const oneRequest = api.PathAdminRemovals + "/{id}"

// Operations of operators on requests.
var (
	ListRequests = route.New[ListQuery, RequestList]("GET", api.PathAdminRemovals, operators.Viewer, audit.None, "What owners of sites ask to be removed")
	ShowRequest  = route.New[string, RequestDocument]("GET", oneRequest, operators.Viewer, audit.None, "One request with its history")
	Settle       = route.New[route.At[Decision], RequestDocument]("POST", oneRequest, operators.Worker, audit.Decide, "Grant or refuse").Answering(http.StatusOK, "As decided")
)

// RegisterAdmin mounts the operators' operations.
func (d *Desk) RegisterAdmin(r *mux.Router, gate operators.Gate) {
	d.registerAdmin(gate.Mount(r, d.opt.Log, Problem))
}

func (d *Desk) registerAdmin(mount route.Mount) {
	ListRequests.On(mount, func(ctx context.Context, q ListQuery) (RequestList, error) {
		list, err := d.List(ctx, listed, q.States...)
		return RequestList{list}, err
	})
	ShowRequest.On(mount, d.document)
	Settle.On(mount, d.settle)
}

// Routes returns all operations, for the API description.
func Routes() []*route.Route {
	return append(route.List(new(Desk).registerAdmin), showForm.Route, takeForm.Route, showOwn.Route, prove.Route)
}

func (d *Desk) document(ctx context.Context, id string) (RequestDocument, error) {
	found, err := d.Get(ctx, id)
	if err != nil {
		return RequestDocument{}, err
	}
	history, err := d.History(ctx, found.ID)
	return RequestDocument{*found, history}, err
}

func (d *Desk) settle(ctx context.Context, in route.At[Decision]) (RequestDocument, error) {
	by := in.Body
	by.By = operators.By(ctx, by.By)
	audit.Note(ctx, audit.Row{Object: map[bool]string{false: "refuse", true: "grant"}[by.Grant] + " removal " + in.Name, Reason: by.Reason})
	if _, err := d.Decide(ctx, in.Name, by); err != nil {
		return RequestDocument{}, err
	}
	return d.document(ctx, in.Name)
}

// Problem turns an error of the desk into an HTTP problem for an operator. It returns other errors
// unchanged.
func Problem(err error) error {
	switch {
	case errors.Is(err, ErrUnknown):
		return problem.New(http.StatusNotFound, "unknown_request", err.Error())
	case errors.Is(err, ErrDecided):
		return problem.New(http.StatusConflict, "decided", err.Error())
	case errors.Is(err, ErrUnproved):
		return problem.New(http.StatusConflict, "unproved", err.Error())
	case errors.Is(err, ErrReason):
		return problem.New(http.StatusBadRequest, "no_reason", err.Error())
	}
	return err
}
