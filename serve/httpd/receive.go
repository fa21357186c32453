package httpd

import (
	"errors"
	"io"
	"net/http"

	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/records"
)

// search returns the handler of an operation that searches. It receives a request's body, and
// counts the request as a search until h returns or leaves its place. It fails with the problem to
// answer.
func (q *Queries) search(h func(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error) route.Handler {
	return guard.Raw(func(w http.ResponseWriter, r *http.Request, a *account.Account) error {
		release, err := receive(q.Limits, w, r, a)
		if err != nil {
			return err
		}
		out, err := q.Limits.Search(r, a)
		if err != nil {
			release()
			return err
		}
		in := guard.NewPlace(func() { out(); release() })
		defer in.Leave()
		return h(w, r, a, in)
	})
}

// receive reads the body of a request, which may be a list, before the request gets a place. So a
// slow client keeps no place. A body longer than guard.SpoolMemory goes to a file, and counts in
// Limits.Bodies while it comes. The body can be read again until release is called.
func receive(limits *guard.Limits, w http.ResponseWriter, r *http.Request, a *account.Account) (release func(), err error) {
	if r.Method != http.MethodPost {
		return func() {}, nil
	}
	from, body := http.MaxBytesReader(w, r.Body, records.MaxTargetBytes), guard.NewSpool(false, nil)
	release = func() { body.Close() }
	defer func() {
		if err == nil {
			return
		}
		body.Close()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = &records.ParamError{Name: "list", Why: "the body breaks off"}
		}
	}()
	if _, err := io.CopyN(body, from, guard.SpoolMemory); err == nil { // there may be more
		leave, err := limits.Bodies.Enter(r, a)
		if err != nil {
			return nil, err
		}
		defer leave()
		if _, err := io.Copy(body, from); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	r.Body = io.NopCloser(body.Content())
	return release, nil
}
