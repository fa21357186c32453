package guard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"sheaf/archive/store"
	"sheaf/internal/transfers"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// Redirect sends clients to the object store for large files that are one whole object there. Such
// a file is counted in full when the client gets its URL, since this process does not learn how
// much of it the client takes. All else is sent by this process: parts of files, answers to
// conditions, and files of accounts whose rate or quota would not let them pass at once.
type Redirect struct {
	At    int64       // size from which on a file is large, in bytes; 0: none is
	Store store.Store // has a store.Presigner within
}

// expires is how long a URL is good for.
const expires = 10 * time.Minute

// url returns where a client may fetch a file until the URL expires; nil if the file is not one
// whole object.
func (x *Redirect) url(ctx context.Context, f *library.File, disposition string) (*url.URL, error) {
	from, ok := store.AsPresigner(x.Store)
	if !ok {
		return nil, fmt.Errorf("the store gives no URLs of its objects")
	}
	info, err := x.Store.Stat(ctx, f.Object)
	switch {
	case err != nil:
		return nil, err
	case info.Size != f.Size:
		return nil, nil
	}
	return from.Presign(ctx, f.Object, store.PresignOptions{Expires: expires, Type: f.Type, Disposition: disposition})
}

// asksForAll reports whether a request is a GET for the whole file, without conditions, that
// another server may answer. It returns false for a script's request, since the other server may
// not let scripts read.
func asksForAll(r *http.Request) bool {
	for _, name := range []string{"Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Origin"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	return r.Method == http.MethodGet && cmp.Or(r.Header.Get("Sec-Fetch-Mode"), "navigate") == "navigate"
}

// redirected answers a request for a large file with a redirect to its object, and reports whether
// it did. The header of w must describe the file.
func (s *Sender) redirected(w http.ResponseWriter, r *http.Request, a *account.Account, f *library.File, name string) bool {
	if s.Redirect.At == 0 || f.Object == "" || f.Size < s.Redirect.At || !asksForAll(r) {
		return false
	}
	h := w.Header()
	to, err := s.Redirect.url(r.Context(), f, h.Get("Content-Disposition"))
	if err != nil {
		s.Log.WarnContext(r.Context(), "no URL of an object for a client", "object", f.Object, "path", name, "err", err)
		return false
	}
	if to == nil || !f.TakeAll() {
		return false
	}
	h.Del("Content-Type") // of the file; this answer has no body
	h.Set("Location", to.String())
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusTemporaryRedirect)
	t := note(r, a, name, time.Now())
	t.Protocol, t.Bytes, t.Outcome = transfers.Redirect, f.Size, transfers.OK
	s.record(context.WithoutCancel(r.Context()), t)
	return true
}
