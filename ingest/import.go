package ingest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"time"

	"sheaf/archive/catalog"
	"sheaf/ingest/accept"
	"sheaf/ingest/foreign"
	"sheaf/ingest/inbox"
	"sheaf/internal/loop"
	"sheaf/internal/problem"
	"sheaf/internal/wire"
)

// The parts of an import's multipart/form-data body. Only the file is required. It comes last.
const (
	partHosts      = "hosts"
	partLenient    = "lenient"    // true or false
	partCollection = "collection" // a wire.Collection, as JSON
	partFile       = "file"

	maxHostMap = 64 << 20
	maxOption  = 16 << 10 // bytes of any part except the file
)

// serveImport receives a file and imports it. It answers when the batch is received.
func (i *Ingest) serveImport(w http.ResponseWriter, r *http.Request) (err error) {
	malformed := func(err error) error {
		return problem.New(http.StatusBadRequest, "bad_body", "the body is not multipart/form-data with the part file, and hosts, lenient and collection before it: "+err.Error())
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return malformed(err)
	}
	var opt accept.ImportOptions
	for {
		part, err := parts.NextPart()
		if err != nil { // io.EOF: there is no file
			return malformed(err)
		}
		if part.FormName() == partFile {
			if err := i.checkCollection(r.Context(), opt.Collection); err != nil {
				return err
			}
			return i.importPart(w, r, part, opt)
		}
		if err := importOption(&opt, part); err != nil {
			return err
		}
	}
}

// importOption reads a part other than the file into opt. It ignores parts with unknown names.
func importOption(opt *accept.ImportOptions, part *multipart.Part) (err error) {
	name := part.FormName()
	if name == partHosts {
		if opt.Hosts, err = foreign.ParseHostMap(io.LimitReader(part, maxHostMap)); err != nil {
			return problem.New(http.StatusBadRequest, "bad_hosts", err.Error())
		}
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(part, maxOption))
	if err != nil {
		return problem.New(http.StatusBadRequest, "bad_body", fmt.Sprintf("the part %s: %v", name, err))
	}
	switch name {
	case partLenient:
		if opt.Lenient, err = strconv.ParseBool(string(text)); err != nil {
			return problem.New(http.StatusBadRequest, "bad_lenient", fmt.Sprintf("lenient is %.100q, want true or false", text))
		}
	case partCollection:
		if err = json.Unmarshal(text, &opt.Collection); err == nil {
			err = opt.Collection.Check()
		}
		if err != nil {
			return problem.New(http.StatusBadRequest, "bad_collection", err.Error())
		}
	}
	return nil
}

// checkCollection returns an error if the collection is taken down. Without this check the new part
// of the collection would be visible and the old part not.
func (i *Ingest) checkCollection(ctx context.Context, of wire.Collection) error {
	if of.Name == "" {
		return nil
	}
	s, err := i.opt.Catalog.Pin(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	if catalog.CollectionDown(s, of.Name) {
		return problem.New(http.StatusConflict, "collection_taken_down", fmt.Sprintf(
			"the collection %s is taken down; restore it (sheaf collection restore), or import under another name", of.Name))
	}
	return nil
}

// errStopping is the answer to an import that ended because the service stops.
var errStopping error = problem.New(http.StatusServiceUnavailable, "stopping", "the service is stopping; import the file again when it runs")

func (i *Ingest) importPart(w http.ResponseWriter, r *http.Request, part *multipart.Part, opt accept.ImportOptions) (err error) {
	f, err := os.CreateTemp(i.env.Buffers.Converting(), "import-*")
	if err != nil {
		return err
	}
	defer func() {
		if rerr := os.Remove(f.Name()); !errors.Is(rerr, os.ErrNotExist) { // it does not exist if it was a batch, which was moved into the buffers
			err = errors.Join(err, rerr)
		}
	}()
	ctx, end := loop.Until(r.Context(), i.opt.Stopping, errStopping)
	defer end()
	var done *accept.Imported
	if err = receiveFile(ctx, w, r, part, f); err == nil {
		done, err = i.Acceptor.Import(ctx, f.Name(), opt)
	}
	if err != nil && context.Cause(ctx) == errStopping {
		return errStopping
	}
	if fault, ok := errors.AsType[*inbox.Refusal](err); ok {
		return problem.New(http.StatusUnprocessableEntity, string(fault.Reason), fault.Detail)
	}
	if err != nil {
		return err
	}
	return problem.JSON(w, http.StatusOK, done)
}

// receiveFile writes the last part of a request to f, and closes f. The end of ctx stops the
// reading.
func receiveFile(ctx context.Context, w http.ResponseWriter, r *http.Request, part io.Reader, f *os.File) error {
	defer context.AfterFunc(ctx, func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now()) })()
	out := bufio.NewWriterSize(f, 256<<10)
	if _, err := io.Copy(out, part); err != nil {
		return fmt.Errorf("receive the file: %w", errors.Join(err, f.Close()))
	}
	if err := errors.Join(out.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("receive the file: %w", err)
	}
	// The server notices that the client has left, and ends the request's context, only after the
	// whole body was read.
	const maxBehind = 64 << 10
	if _, err := io.CopyN(io.Discard, r.Body, maxBehind); err == nil {
		return problem.New(http.StatusBadRequest, "bad_body", fmt.Sprintf("more than %d bytes follow the file; send it as the last part", maxBehind))
	} else if err != io.EOF {
		return fmt.Errorf("receive the file: %w", err)
	}
	return nil
}
