package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strconv"

	"github.com/gorilla/mux"

	"sheaf/archive/store"
	"sheaf/archive/upkeep"
	"sheaf/ingest/accept"
	"sheaf/ingest/inbox"
	"sheaf/ingest/receive"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/wire"
)

// BatchQuery is the query of GET /v1/admin/batches.
type BatchQuery struct {
	State wire.State `query:"state" doc:"only batches in this state, such as quarantined"`
	Robot string     `query:"robot" doc:"only batches of this robot"`
	Limit int        `query:"limit" min:"1" max:"10000" default:"100" doc:"batches at most"`
}

// BatchList answers GET /v1/admin/batches.
type BatchList struct {
	Buffers []inbox.Buffer `json:"buffers"`
	Batches []*inbox.Batch `json:"batches"`
}

// Published answers POST /v1/admin/publish.
type Published struct {
	Batches int    `json:"batches"`
	Version int64  `json:"version,omitempty"`
	Edition string `json:"edition,omitempty"`
}

// importForm has the parts of POST /v1/admin/imports. The file comes last.
type importForm struct {
	Hosts      string `form:"hosts" doc:"lines of directories and their hosts"`
	Lenient    bool   `form:"lenient"`
	Collection string `form:"collection" doc:"JSON with name, source and licence"`
	File       []byte `form:"file" required:"true"`
}

const oneBatch = api.PathAdminBatches + "/{id}"

// Operators' operations on batches.
var (
	ListBatches  = route.New[BatchQuery, BatchList]("GET", api.PathAdminBatches, operators.Viewer, audit.None, "The four buffers, and batches, latest first")
	ShowBatch    = route.New[string, *inbox.Batch]("GET", oneBatch, operators.Viewer, audit.None, "One batch")
	ShowOthers   = route.New[string, route.None]("GET", oneBatch+"/others", operators.Viewer, audit.None, "Records of an imported file that are in no segment, as warc.gz").Answering(http.StatusOK, "").Sends("application/gzip")
	ReleaseBatch = route.New[route.At[inbox.Order], *inbox.Batch]("POST", oneBatch+"/release", operators.Worker, audit.Decide, "Take a quarantined batch up again").Optional()
	DiscardBatch = route.New[route.At[inbox.Order], *inbox.Batch]("POST", oneBatch+"/discard", operators.Worker, audit.Decide, "Delete what is kept of a quarantined batch").Optional()
	Publish      = route.New[route.None, Published]("POST", api.PathAdminPublish, operators.Worker, audit.Publish, "Publish now, whatever the window says")
	Import       = route.New[importForm, accept.Imported]("POST", api.PathAdminImports, operators.Worker, audit.Import, "Import a WARC, ARC, WACZ or tree of pages").Takes("multipart/form-data")
)

// Register mounts the operators' operations behind the gate.
func (i *Ingest) Register(r *mux.Router, gate operators.Gate) {
	i.register(gate.Mount(r, i.opt.Log, nil))
}

func (i *Ingest) register(mount route.Mount) {
	ListBatches.On(mount, i.list)
	ShowBatch.On(mount, i.batch)
	ShowOthers.Raw(mount, i.serveOthers)
	ReleaseBatch.On(mount, i.decide("release", i.Quarantine.Release))
	DiscardBatch.On(mount, i.decide("discard", i.Quarantine.Discard))
	Publish.On(mount, i.publish)
	Import.Raw(mount, i.serveImport)
}

// Routes returns the operations, for the API description.
func Routes() []*route.Route {
	return slices.Concat(route.List(new(Ingest).register), receive.Routes(), upkeep.Routes())
}

// Buffers returns the number and the size of the batches in each state, without discarded ones, in
// the order of the states.
func (i *Ingest) Buffers(ctx context.Context) ([]inbox.Buffer, error) {
	return i.env.Ledger.Buffers(ctx, i.opt.Now())
}

// Held is Buffers without the published batches whose files are deleted. It is quick.
func (i *Ingest) Held(ctx context.Context) ([]inbox.Buffer, error) {
	return i.env.Ledger.Held(ctx, i.opt.Now())
}

// Batches returns the batches that the filter selects, the latest received first.
func (i *Ingest) Batches(ctx context.Context, f inbox.Filter) ([]*inbox.Batch, error) {
	return i.env.Ledger.List(ctx, f)
}

// Batch returns the batch with an ID, or nil if there is no such batch.
func (i *Ingest) Batch(ctx context.Context, id string) (*inbox.Batch, error) {
	return i.env.Ledger.Get(ctx, id)
}

// Manifest returns a batch's manifest, without checking its signature, or nil if no manifest is
// kept.
func (i *Ingest) Manifest(ctx context.Context, b *inbox.Batch) (*wire.Manifest, error) {
	m, _, err := i.env.Manifest(ctx, b)
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrNotExist) {
		return m, err
	}
	signed, err := store.ReadAll(ctx, i.opt.Store, wire.ManifestKey(b.Batch), 0, -1) // of a published batch
	if errors.Is(err, store.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return wire.PeekManifest(signed)
}

func (i *Ingest) list(ctx context.Context, q BatchQuery) (list BatchList, err error) {
	if list.Buffers, err = i.Buffers(ctx); err != nil {
		return list, err
	}
	found, err := i.Batches(ctx, inbox.Filter{State: q.State, Robot: q.Robot, Limit: q.Limit})
	list.Batches = append([]*inbox.Batch{}, found...)
	return list, err
}

func (i *Ingest) batch(ctx context.Context, id string) (*inbox.Batch, error) {
	b, err := i.env.Ledger.Get(ctx, id)
	if err == nil && b == nil {
		err = noBatch(id)
	}
	return b, err
}

func noBatch(id string) error {
	return problem.New(http.StatusNotFound, "not_found", "no batch "+strconv.Quote(id)+" was ever accepted; GET /v1/admin/batches lists those that were")
}

// decide returns the handler of an operator's decision about a batch. verb is for the audit log.
func (i *Ingest) decide(verb string, do func(context.Context, string, inbox.Order) (*inbox.Batch, error)) func(context.Context, route.At[inbox.Order]) (*inbox.Batch, error) {
	return func(ctx context.Context, in route.At[inbox.Order]) (*inbox.Batch, error) {
		in.Body.By = operators.By(ctx, in.Body.By)
		audit.Note(ctx, audit.Row{Object: verb + " batch " + in.Name, Reason: in.Body.Note})
		b, err := do(ctx, in.Name, in.Body)
		var no *inbox.Undecidable
		switch {
		case errors.As(err, &no):
			err = problem.New(http.StatusConflict, "undecidable", no.Detail)
		case err == nil && b == nil:
			err = noBatch(in.Name)
		}
		return b, err
	}
}

func (i *Ingest) publish(ctx context.Context, _ route.None) (Published, error) {
	i.opt.Log.WarnContext(ctx, "operator publishes now", "remote", route.Request(ctx).RemoteAddr, "window", i.opt.Window)
	v, n, err := i.Publisher.Now(ctx)
	if err == nil {
		audit.Note(ctx, audit.Row{Object: "edition " + v.Edition})
	}
	return Published{n, v.N, v.Edition}, err
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
