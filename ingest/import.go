package ingest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"

	"sheaf/ingest/accept"
	"sheaf/ingest/foreign"
	"sheaf/ingest/verify"
	"sheaf/internal/problem"
)

// The parts of an import's body, a multipart/form-data. All but the file may be missing, and come
// before the file.
const (
	partHosts   = "hosts"
	partLenient = "lenient" // true or false
	partFile    = "file"

	maxHostMap = 64 << 20
)

// serveImport receives a file and imports it. It answers when the batch is received.
func (i *Ingest) serveImport(w http.ResponseWriter, r *http.Request) (err error) {
	malformed := func(err error) error {
		return problem.New(http.StatusBadRequest, "bad_body", "the body is not multipart/form-data with the part file, and hosts and lenient before it: "+err.Error())
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return malformed(err)
	}
	var opt accept.ImportOptions
	for {
		part, err := parts.NextPart()
		if err != nil { // io.EOF: there was no file
			return malformed(err)
		}
		switch part.FormName() {
		case partHosts:
			if opt.Hosts, err = foreign.ParseHostMap(io.LimitReader(part, maxHostMap)); err != nil {
				return problem.New(http.StatusBadRequest, "bad_hosts", err.Error())
			}
		case partLenient:
			const enough = 16
			text, err := io.ReadAll(io.LimitReader(part, enough))
			if err != nil {
				return malformed(err)
			}
			if opt.Lenient, err = strconv.ParseBool(string(text)); err != nil {
				return problem.New(http.StatusBadRequest, "bad_lenient", fmt.Sprintf("lenient is %q, want true or false", text))
			}
		case partFile:
			return i.importPart(w, r, part, opt)
		}
	}
}

func (i *Ingest) importPart(w http.ResponseWriter, r *http.Request, part *multipart.Part, opt accept.ImportOptions) (err error) {
	f, err := os.CreateTemp(i.env.Buffers.Converting(), "import-*")
	if err != nil {
		return err
	}
	defer func() {
		if rerr := os.Remove(f.Name()); !errors.Is(rerr, os.ErrNotExist) { // a batch was moved into the buffers
			err = errors.Join(err, rerr)
		}
	}()
	out := bufio.NewWriterSize(f, 256<<10)
	_, err = io.Copy(out, part)
	if err = errors.Join(err, out.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("receive the file: %w", err)
	}
	// Only when the body is read to its end does the server notice that the client has left, and
	// end the request's context.
	const maxBehind = 64 << 10
	if _, err := io.CopyN(io.Discard, r.Body, maxBehind); err == nil {
		return problem.New(http.StatusBadRequest, "bad_body", fmt.Sprintf("more than %d bytes follow the file; send it as the last part", maxBehind))
	} else if err != io.EOF {
		return fmt.Errorf("receive the file: %w", err)
	}
	done, err := i.Acceptor.Import(r.Context(), f.Name(), opt)
	var fault *verify.Refusal
	if errors.As(err, &fault) {
		return problem.New(http.StatusUnprocessableEntity, string(fault.Reason), fault.Detail)
	}
	if err != nil {
		return err
	}
	return answer(w, done)
}
