package board

import (
	"errors"
	"net/http"

	"github.com/gorilla/mux"

	"sheaf/ingest/inbox"
	"sheaf/internal/audit"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
)

// batchesPage lists batches of a state, the latest received first.
type batchesPage struct {
	page
	State     wire.State
	StateName string
	Robot     string // whose they are; empty: of all
	Decidable bool   // they are in the quarantine
	Batches   []*inbox.Batch
	Pager     pager
}

var batchesTemplate = parse("batches")

func (b *board) batches(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	p := batchesPage{page: b.page(r), State: wire.State(q.Get("state")), Robot: q.Get("robot")}
	list, err := b.Ingest.Batches(r.Context(), inbox.Filter{State: p.State, Robot: p.Robot, After: q.Get("after"), Limit: listed + 1})
	if err != nil {
		return err
	}
	p.StateName, p.Decidable = StateName(p.Page, p.State), p.State == wire.StateQuarantined
	p.Batches, p.Pager = after(r, list, func(b *inbox.Batch) string { return b.ID })
	return webpage.Show(w, r, http.StatusOK, batchesTemplate, p)
}

// StateOf says a batch's state in the reader's words.
func (p batchesPage) StateOf(b *inbox.Batch) string { return StateName(p.Page, b.State) }

// batchPage shows one batch.
type batchPage struct {
	page
	One       *inbox.Batch
	StateName string
	Decidable bool
}

var batchTemplate = parse("batch")

func (b *board) batch(w http.ResponseWriter, r *http.Request) error {
	one, err := b.Ingest.Batch(r.Context(), mux.Vars(r)["batch"])
	if err != nil {
		return err
	}
	if one == nil {
		return problem.New(http.StatusNotFound, "not_found", "there is no such batch")
	}
	p := batchPage{page: b.page(r), One: one, Decidable: one.State == wire.StateQuarantined && one.Decision != inbox.Discarded}
	p.StateName = StateName(p.Page, one.State)
	return webpage.Show(w, r, http.StatusOK, batchTemplate, p)
}

// decideBatch carries out what an operator has decided about a batch in the quarantine.
func (b *board) decideBatch(w http.ResponseWriter, r *http.Request) error {
	in, err := route.Form[batchForm](w, r)
	if err != nil {
		return err
	}
	decide := b.Ingest.Quarantine.Release
	if in.Act == "discard" {
		decide = b.Ingest.Quarantine.Discard
	}
	audit.Note(r.Context(), audit.Row{Object: in.Act + " batch " + in.Batch, Reason: in.Note})
	found, err := decide(r.Context(), in.Batch, inbox.Order{By: by(r), Note: in.Note})
	var no *inbox.Undecidable
	switch {
	case errors.As(err, &no):
		return problem.New(http.StatusConflict, "undecidable", no.Detail)
	case err != nil:
		return err
	case found == nil:
		return problem.New(http.StatusNotFound, "not_found", "there is no such batch")
	}
	return back(w, pathBatches+"?state="+string(wire.StateQuarantined))
}

// deciding is what the form that decides about a batch is made with.
type deciding struct {
	webpage.Page
	Batch *inbox.Batch
}

func (p page) Deciding(b *inbox.Batch) deciding { return deciding{p.Page, b} }
