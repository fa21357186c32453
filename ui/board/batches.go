package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/mux"

	"sheaf/ingest/inbox"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// batchesPage lists batches of a state, the latest received first.
type batchesPage struct {
	page
	State     wire.State
	Robot     string      // that sent them; empty: any
	Reason    wire.Reason // why they are in the quarantine; empty: any
	Decidable bool        // they are in the quarantine
	Batches   []*inbox.Batch
	Match     int // batches that match and wait for a decision; 0: more than mostDecided
	States    []wire.State
	Reasons   []wire.Reason
	Pager     pager
}

// mostDecided is the most batches that one decision may be about.
const mostDecided = 1000

func (b *board) batches(r *http.Request) (any, error) {
	q := r.URL.Query()
	p := batchesPage{page: b.page(r), State: wire.State(q.Get("state")), Robot: q.Get("robot"), Reason: wire.Reason(q.Get("reason")),
		States: []wire.State{wire.StateReceived, wire.StatePreSplit, wire.StatePostSplit, wire.StatePublished, wire.StateQuarantined}, Reasons: wire.QuarantineReasons()}
	f := inbox.Filter{State: p.State, Robot: p.Robot, Reason: p.Reason, After: q.Get("after"), Limit: listed + 1}
	list, err := b.Ingest.Batches(r.Context(), f)
	if err != nil {
		return nil, err
	}
	p.Decidable = p.State == wire.StateQuarantined
	p.Batches, p.Pager = after(r, list, func(b *inbox.Batch) string { return b.ID })
	if p.Decidable && p.May(operators.Worker) {
		all, err := b.matching(r.Context(), p.Robot, p.Reason)
		if err != nil {
			return nil, err
		}
		if len(all) <= mostDecided {
			p.Match = len(all)
		}
	}
	return p, nil
}

// matching returns the IDs of the batches in the quarantine that wait for a decision, at most
// mostDecided+1. An empty robot or reason stands for all.
func (b *board) matching(ctx context.Context, robot string, reason wire.Reason) (ids []string, err error) {
	list, err := b.Ingest.Batches(ctx, inbox.Filter{State: wire.StateQuarantined, Robot: robot, Reason: reason, Undecided: true, Limit: mostDecided + 1})
	for _, one := range list {
		ids = append(ids, one.ID)
	}
	return ids, err
}

// batchPage shows one batch.
type batchPage struct {
	page
	One       *inbox.Batch
	Decidable bool
	Hosts     []wire.Host
	Pager     pager
}

func (b *board) batch(r *http.Request) (any, error) {
	one, err := b.Ingest.Batch(r.Context(), mux.Vars(r)["batch"])
	if err != nil {
		return nil, err
	}
	if one == nil {
		return nil, problem.New(http.StatusNotFound, "not_found", "there is no such batch")
	}
	p := batchPage{page: b.page(r), One: one, Decidable: one.State == wire.StateQuarantined && one.Decision != inbox.Discarded}
	manifest, err := b.Ingest.Manifest(r.Context(), one)
	if err != nil {
		b.Log.WarnContext(r.Context(), "the manifest of a batch cannot be read", "batch", one.ID, "err", err)
	}
	if manifest != nil && len(manifest.Hosts) > 0 {
		p.Hosts, p.Pager = paged(r, manifest.Hosts)
	}
	return p, nil
}

// Undoable reports whether a decision to discard a batch can still be taken back.
func (p page) Undoable(b *inbox.Batch) bool {
	return b.Decision == inbox.Discarded && !b.Collected && p.May(operators.Worker)
}

// DecisionName names a decision in the reader's language.
func (p page) DecisionName(d inbox.Decision) string {
	return cmp.Or(map[inbox.Decision]string{
		inbox.Released:  p.T("released"),
		inbox.Discarded: p.T("discarded"),
	}[d], string(d))
}

// decideBatches carries out what an operator has decided about batches in the quarantine: those
// that are checked, or all that match. If one of them cannot be decided about, it goes on with the
// next.
func (b *board) decideBatches(r *http.Request, in batchForm) (string, error) {
	ids, decide := in.Batches, b.Ingest.Quarantine.Release
	switch {
	case in.Undo != "":
		in.Act, ids, decide = "take back", []string{in.Undo}, b.Ingest.Quarantine.Undiscard
	case in.Act == "":
		return "", problem.New(http.StatusBadRequest, "bad_form", "the form names no act")
	case in.Act == "discard":
		decide = b.Ingest.Quarantine.Discard
	}
	if in.Match && in.Undo == "" {
		var err error
		if ids, err = b.matching(r.Context(), in.Robot, in.Reason); err != nil {
			return "", err
		}
		if most := min(in.Most, mostDecided); len(ids) > most {
			return "", problem.New(http.StatusConflict, "too_many", fmt.Sprintf("%d batches match now, more than the %d that were shown; look at them first", len(ids), most))
		}
	}
	audit.Note(r.Context(), audit.Row{Object: in.Act + " batch " + strings.Join(ids, " "), Reason: in.Note})
	var failed error
	done := 0
	for _, id := range ids {
		switch err := decided(decide(r.Context(), id, inbox.Order{By: by(r), Note: in.Note, Undo: true})); {
		case err == nil:
			done++
		case failed == nil:
			failed = err
		}
	}
	if no, ok := errors.AsType[*problem.Error](failed); len(ids) > 1 && ok {
		return "", problem.New(no.Status, "undecidable", fmt.Sprintf("%d of %d batches are done. %s", done, len(ids), no.Detail))
	}
	if failed != nil {
		return "", failed
	}
	return pathBatches + "?" + url.Values{"state": {string(wire.StateQuarantined)}, "robot": {in.Robot}, "reason": {string(in.Reason)}}.Encode(), nil
}

// decided returns the problem to answer for the outcome of a decision; nil if it is carried out.
func decided(found *inbox.Batch, err error) error {
	var no *inbox.Undecidable
	switch {
	case errors.As(err, &no):
		return problem.New(http.StatusConflict, "undecidable", no.Detail)
	case err == nil && found == nil:
		return problem.New(http.StatusNotFound, "not_found", "there is no such batch")
	}
	return err
}
