package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"

	"sheaf/ingest/foreign"
	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// Imported is the answer to an import.
type Imported struct {
	Batch     wire.BatchID `json:"batch"`
	State     wire.State   `json:"state"`
	Fresh     bool         `json:"fresh"` // false: the same file has been imported before
	Kind      foreign.Kind `json:"kind,omitempty"`
	Hosts     int          `json:"hosts"`
	Pages     int64        `json:"pages"`
	Responses int64        `json:"responses"` // answers that are no page
	Revisits  int64        `json:"revisits"`
	Others    int64        `json:"others"` // records kept beside the batch
}

// The parts of an import's body, a multipart/form-data: a host map, which may be left out, comes before the file.
const (
	partHosts = "hosts"
	partFile  = "file"

	maxHostMap = 64 << 20
)

// Import takes a foreign file, or a batch, for what operators bring. What is wrong with the file is a *Refusal,
// and nothing of it is kept: who imports has it.
func (i *Ingest) Import(ctx context.Context, path string, hosts foreign.HostMap) (_ *Imported, err error) {
	up := Upload{Robot: ImportRobot, Protocol: ImportRobot, Path: path}
	found, err := i.infer(ctx, up, hosts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Drop()) }()
	up.Path = found.Path
	fresh, err := i.AcceptInferred(ctx, up, found.Manifest)
	if err != nil {
		return nil, err
	}
	b, err := i.ledger.get(ctx, string(found.Manifest.Batch))
	if err != nil {
		return nil, err
	}
	done := &Imported{Batch: b.Batch, State: b.State, Fresh: fresh, Hosts: len(found.Manifest.Hosts)}
	if c := found.Converted; c != nil {
		done.Kind, done.Pages, done.Responses, done.Revisits, done.Others = c.Kind, c.Pages, c.Responses, c.Revisits, c.Others
	}
	return done, nil
}

// serveImport receives a file and imports it. The answer comes when it has been converted and its
// batch is received.
func (i *Ingest) serveImport(w http.ResponseWriter, r *http.Request) (err error) {
	malformed := func(err error) error {
		return problem.New(http.StatusBadRequest, "bad_body", "the body is not multipart/form-data with the part file, and hosts before it: "+err.Error())
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return malformed(err)
	}
	hosts := i.opt.ForeignHosts
	for {
		part, err := parts.NextPart()
		if err != nil { // io.EOF: there was no file
			return malformed(err)
		}
		if part.FormName() == partHosts {
			if hosts, err = foreign.ParseHostMap(io.LimitReader(part, maxHostMap)); err != nil {
				return problem.New(http.StatusBadRequest, "bad_hosts", err.Error())
			}
			continue
		}
		if part.FormName() == partFile {
			return i.importPart(w, r, part, hosts)
		}
	}
}

func (i *Ingest) importPart(w http.ResponseWriter, r *http.Request, part *multipart.Part, hosts foreign.HostMap) (err error) {
	f, err := os.CreateTemp(i.buffers.converting(), "import-*")
	if err != nil {
		return err
	}
	defer func() {
		if rerr := os.Remove(f.Name()); !errors.Is(rerr, os.ErrNotExist) { // a batch of ours was moved
			err = errors.Join(err, rerr)
		}
	}()
	out := bufio.NewWriterSize(f, 256<<10)
	_, err = io.Copy(out, part)
	if err = errors.Join(err, out.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("receive the file: %w", err)
	}
	// The server notices that the client has left, and ends the request's context, only
	// once the body is read to its end.
	const mostBehind = 64 << 10
	if _, err := io.CopyN(io.Discard, r.Body, mostBehind); err == nil {
		return problem.New(http.StatusBadRequest, "bad_body", fmt.Sprintf("more than %d bytes follow the file; send it as the last part", mostBehind))
	} else if err != io.EOF {
		return fmt.Errorf("receive the file: %w", err)
	}
	done, err := i.Import(r.Context(), f.Name(), hosts)
	var fault *Refusal
	if errors.As(err, &fault) {
		return problem.New(http.StatusUnprocessableEntity, string(fault.Reason), fault.Detail)
	}
	if err != nil {
		return err
	}
	return answer(w, done)
}
