package board

import (
	"errors"
	"net/http"

	"sheaf/ingest/ledger"
	"sheaf/ingest/quarantine"
	"sheaf/internal/problem"
	"sheaf/internal/webpage"
	"sheaf/internal/wire"
)

// batchesPage lists batches of a state, the latest received first.
type batchesPage struct {
	webpage.Page
	State     wire.State
	StateName string
	Decidable bool // they are in the quarantine
	Batches   []*ledger.Batch
}

// listed is how many batches or hosts a page lists.
const listed = 200

var batchesTemplate = parse("batches")

func (b *board) batches(w http.ResponseWriter, r *http.Request) error {
	state := wire.State(r.URL.Query().Get("state"))
	list, err := b.Ingest.Batches(r.Context(), ledger.Filter{State: state, Robot: r.URL.Query().Get("robot"), Limit: listed})
	if err != nil {
		return err
	}
	p := b.page(r)
	return webpage.Show(w, r, http.StatusOK, batchesTemplate, batchesPage{p, state, stateName(p, state), state == wire.StateQuarantined, list})
}

// decideBatch carries out what an operator has decided about a batch in the quarantine.
func (b *board) decideBatch(w http.ResponseWriter, r *http.Request) error {
	form, err := readForm(w, r)
	if err != nil {
		return err
	}
	decide := b.Ingest.Quarantine.Release
	switch form.Get("act") {
	case "release":
	case "discard":
		decide = b.Ingest.Quarantine.Discard
	default:
		return problem.New(http.StatusBadRequest, "bad_form", "act is neither release nor discard")
	}
	found, err := decide(r.Context(), form.Get("batch"), quarantine.Word{By: by(r), Note: form.Get("note")})
	var no *quarantine.Undecidable
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

// publish publishes now, also outside the window.
func (b *board) publish(w http.ResponseWriter, r *http.Request) error {
	b.Log.Warn("operator publishes now", "by", by(r), "remote", r.RemoteAddr, "window", b.Publish)
	if _, _, err := b.Ingest.Publisher.Now(r.Context()); err != nil {
		return err
	}
	return back(w, Path)
}
