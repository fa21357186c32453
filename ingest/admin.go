package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"sheaf/internal/problem"
	"sheaf/internal/wire"

	"github.com/gorilla/mux"
)

// Buffer sums up the batches in one state.
type Buffer struct {
	State   wire.State `json:"state"`
	Batches int64      `json:"batches"`
	Bytes   int64      `json:"bytes"`
	Oldest  float64    `json:"oldest_seconds"` // since the oldest entered the state; 0 where there is none
}

// states in the order of a batch's way.
var states = []wire.State{wire.StateReceived, wire.StatePreSplit, wire.StatePostSplit, wire.StatePublished, wire.StateQuarantined}

// Paths of the operators' API; see Register.
const (
	PathBatches = "/v1/admin/batches"
	PathPublish = "/v1/admin/publish"
	PathImports = "/v1/admin/imports"
)

// Register mounts the operators' paths, each behind the operator middleware:
//
//	GET  /v1/admin/batches?state=&robot=&limit=   the buffers, and batches, latest first
//	GET  /v1/admin/batches/{id}                   one batch
//	POST /v1/admin/batches/{id}/release           {"by","note"}: take a quarantined batch up again
//	POST /v1/admin/batches/{id}/discard           {"by","note"}: delete a quarantined batch's file
//	POST /v1/admin/publish                        publish now, whatever the window says
func (i *Ingest) Register(r *mux.Router, operator func(http.Handler) http.Handler) {
	handle := func(method, path string, f func(http.ResponseWriter, *http.Request) error) {
		r.Handle(path, operator(problem.Handler(i.log, f))).Methods(method)
	}
	handle("GET", PathBatches, i.serveList)
	handle("GET", PathBatches+"/{id}", i.serveBatch)
	handle("POST", PathBatches+"/{id}/release", i.serveDecision(i.Release))
	handle("POST", PathBatches+"/{id}/discard", i.serveDecision(i.Discard))
	handle("POST", PathPublish, i.servePublish)
	handle("POST", PathImports, i.serveImport)
	handle("GET", PathBatches+"/{id}/others", i.serveOthers)
}

const defaultListed = 100

func (i *Ingest) serveList(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	f := filter{state: wire.State(q.Get("state")), robot: q.Get("robot"), limit: defaultListed}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 10_000 {
			return problem.New(http.StatusBadRequest, "bad_limit", "limit "+strconv.Quote(s)+" is not a number from 1 to 10000")
		}
		f.limit = n
	}
	buffers, err := i.Buffers(r.Context())
	if err != nil {
		return err
	}
	list, err := i.ledger.list(r.Context(), f)
	if err != nil {
		return err
	}
	return answer(w, struct {
		Buffers []Buffer `json:"buffers"`
		Batches []*Batch `json:"batches"`
	}{buffers, append([]*Batch{}, list...)})
}

func (i *Ingest) serveBatch(w http.ResponseWriter, r *http.Request) error {
	id := mux.Vars(r)["id"]
	b, err := i.ledger.get(r.Context(), id)
	if err != nil {
		return err
	}
	if b == nil {
		return noBatch(id)
	}
	return answer(w, b)
}

func noBatch(id string) error {
	return problem.New(http.StatusNotFound, "not_found", "no batch "+strconv.Quote(id)+" was ever accepted; GET /v1/admin/batches lists those that were")
}

// maxWord is the longest body, in bytes, that a decision may come with.
const maxWord = 16 << 10

// serveDecision carries an operator's decision about a batch out. The body may be
// empty; the operator is then known by address alone.
func (i *Ingest) serveDecision(decide func(context.Context, string, Word) (*Batch, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var word Word
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxWord)).Decode(&word); err != nil && err != io.EOF {
			return problem.New(http.StatusBadRequest, "bad_body", "the body is not {\"by\": NAME, \"note\": TEXT}: "+err.Error())
		}
		if word.By == "" {
			word.By = "operator at " + r.RemoteAddr
		}
		id := mux.Vars(r)["id"]
		b, err := decide(r.Context(), id, word)
		var no *Undecidable
		switch {
		case errors.As(err, &no):
			return problem.New(http.StatusConflict, "undecidable", no.Detail)
		case err != nil:
			return err
		case b == nil:
			return noBatch(id)
		}
		return answer(w, b)
	}
}

func (i *Ingest) servePublish(w http.ResponseWriter, r *http.Request) error {
	i.log.Warn("operator publishes now", "remote", r.RemoteAddr, "window", i.opt.Window)
	v, n, err := i.PublishNow(r.Context())
	if err != nil {
		return err
	}
	return answer(w, struct {
		Batches int    `json:"batches"`
		Version int64  `json:"version,omitempty"`
		Edition string `json:"edition,omitempty"`
	}{n, v.N, v.Edition})
}

func answer(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}

// age is how long ago a state was entered, in seconds.
func age(now, entered time.Time) float64 {
	if entered.IsZero() {
		return 0
	}
	return max(now.Sub(entered), 0).Round(time.Millisecond).Seconds()
}

// Buffers gives the fill of every state, in the order of a batch's way.
func (i *Ingest) Buffers(ctx context.Context) ([]Buffer, error) {
	sums, err := i.ledger.buffers(ctx, i.opt.Now())
	if err != nil {
		return nil, err
	}
	list := make([]Buffer, len(states))
	for n, s := range states {
		list[n] = sums[s]
		list[n].State = s
	}
	return list, nil
}
