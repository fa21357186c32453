package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"sheaf/archive/store"
	"sheaf/ingest/ledger"
	"sheaf/ingest/quarantine"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/wire"

	"github.com/gorilla/mux"
)

// Register mounts the operators' paths, each behind the operators' gate:
//
//	GET  /v1/admin/batches?state=&robot=&limit=   the buffers, and batches, latest first
//	GET  /v1/admin/batches/{id}                   one batch
//	GET  /v1/admin/batches/{id}/others            an imported batch's records that are no pages, as .warc.gz
//	POST /v1/admin/batches/{id}/release           {"by","note"}: make a quarantined batch received again
//	POST /v1/admin/batches/{id}/discard           {"by","note"}: delete a quarantined batch's file
//	POST /v1/admin/publish                        publish now, also outside the window
//	POST /v1/admin/imports                        import a foreign file, or a batch
func (i *Ingest) Register(r *mux.Router, gate operators.Gate) {
	handle := func(method, path string, least operators.Role, act audit.Act, f func(http.ResponseWriter, *http.Request) error) {
		r.Handle(path, gate(least, act, problem.Handler(i.opt.Log, f))).Methods(method)
	}
	handle("GET", api.PathAdminBatches, operators.Viewer, audit.None, i.serveList)
	handle("GET", api.PathAdminBatches+"/{id}", operators.Viewer, audit.None, i.serveBatch)
	handle("POST", api.PathAdminBatches+"/{id}/release", operators.Worker, audit.Decide, i.serveDecision("release", i.Quarantine.Release))
	handle("POST", api.PathAdminBatches+"/{id}/discard", operators.Worker, audit.Decide, i.serveDecision("discard", i.Quarantine.Discard))
	handle("POST", api.PathAdminPublish, operators.Worker, audit.Publish, i.servePublish)
	handle("POST", api.PathAdminImports, operators.Worker, audit.Import, i.serveImport)
	handle("GET", api.PathAdminBatches+"/{id}/others", operators.Viewer, audit.None, i.serveOthers)
}

// Buffers returns the sums of all states, in the order in which a batch passes through them.
func (i *Ingest) Buffers(ctx context.Context) ([]ledger.Buffer, error) {
	return i.env.Ledger.Buffers(ctx, i.opt.Now())
}

// Held returns the sums of the batches whose files are in the buffers. It is quick.
func (i *Ingest) Held(ctx context.Context) ([]ledger.Buffer, error) {
	return i.env.Ledger.Held(ctx, i.opt.Now())
}

// Batches returns batches, the latest received first.
func (i *Ingest) Batches(ctx context.Context, f ledger.Filter) ([]*ledger.Batch, error) {
	return i.env.Ledger.List(ctx, f)
}

// Batch returns a batch, or nil if there is none.
func (i *Ingest) Batch(ctx context.Context, id string) (*ledger.Batch, error) {
	return i.env.Ledger.Get(ctx, id)
}

const defaultListed = 100

func (i *Ingest) serveList(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	f := ledger.Filter{State: wire.State(q.Get("state")), Robot: q.Get("robot"), Limit: defaultListed}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 10_000 {
			return problem.New(http.StatusBadRequest, "bad_limit", "limit "+strconv.Quote(s)+" is not a number from 1 to 10000")
		}
		f.Limit = n
	}
	buffers, err := i.Buffers(r.Context())
	if err != nil {
		return err
	}
	list, err := i.Batches(r.Context(), f)
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, struct {
		Buffers []ledger.Buffer `json:"buffers"`
		Batches []*ledger.Batch `json:"batches"`
	}{buffers, append([]*ledger.Batch{}, list...)})
}

func (i *Ingest) serveBatch(w http.ResponseWriter, r *http.Request) error {
	id := mux.Vars(r)["id"]
	b, err := i.env.Ledger.Get(r.Context(), id)
	if err != nil {
		return err
	}
	if b == nil {
		return noBatch(id)
	}
	return problem.JSON(w, http.StatusOK, b)
}

func noBatch(id string) error {
	return problem.New(http.StatusNotFound, "not_found", "no batch "+strconv.Quote(id)+" was ever accepted; GET /v1/admin/batches lists those that were")
}

// serveDecision carries out an operator's decision about a batch. The body may be empty.
func (i *Ingest) serveDecision(verb string, decide func(context.Context, string, quarantine.Word) (*ledger.Batch, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var word quarantine.Word
		if err := problem.ReadJSONIfAny(w, r, &word); err != nil {
			return err
		}
		word.By = operators.By(r.Context(), word.By)
		id := mux.Vars(r)["id"]
		audit.Note(r.Context(), audit.Row{Object: verb + " batch " + id, Reason: word.Note})
		b, err := decide(r.Context(), id, word)
		var no *quarantine.Undecidable
		switch {
		case errors.As(err, &no):
			return problem.New(http.StatusConflict, "undecidable", no.Detail)
		case err != nil:
			return err
		case b == nil:
			return noBatch(id)
		}
		return problem.JSON(w, http.StatusOK, b)
	}
}

func (i *Ingest) servePublish(w http.ResponseWriter, r *http.Request) error {
	i.opt.Log.WarnContext(r.Context(), "operator publishes now", "remote", r.RemoteAddr, "window", i.opt.Window)
	v, n, err := i.Publisher.Now(r.Context())
	if err != nil {
		return err
	}
	audit.Note(r.Context(), audit.Row{Object: "edition " + v.Edition})
	return problem.JSON(w, http.StatusOK, struct {
		Batches int    `json:"batches"`
		Version int64  `json:"version,omitempty"`
		Edition string `json:"edition,omitempty"`
	}{n, v.N, v.Edition})
}

// serveOthers sends the records of an imported file that are no pages, as a .warc.gz.
func (i *Ingest) serveOthers(w http.ResponseWriter, r *http.Request) error {
	id := mux.Vars(r)["id"]
	in, err := i.opt.Store.Open(r.Context(), wire.OthersKey(wire.BatchID(id)), 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return problem.New(http.StatusNotFound, "not_found", fmt.Sprintf("nothing is kept beside the batch %q: it is none of an imported WARC with records that are neither pages nor answers", id))
	}
	if err != nil {
		return err
	}
	defer in.Close()
	w.Header().Set("Content-Type", "application/gzip")
	_, err = io.Copy(w, in)
	return err
}
