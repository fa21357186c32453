package webpage

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"sheaf/internal/wire"
)

//go:embed error.html
var errorText string

var errorTemplate = Parse(errorText)

// errorPage is the data of the page that shows a problem+json to people.
type errorPage struct {
	Page
	wire.Problem
	Next time.Time // when to try again; zero: not known
	Menu []Group   // menu of the page that failed
}

// Errors passes requests on to next and, for browsers, turns problem+json answers into pages. All
// other answers stay as they are.
func (s *Site) Errors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Wanted(r) {
			next.ServeHTTP(w, r)
			return
		}
		kept, was := &problemKeeper{ResponseWriter: w}, new(around)
		next.ServeHTTP(kept, r.WithContext(context.WithValue(r.Context(), aroundKey{}, was)))
		if kept.body == nil {
			return
		}
		p := errorPage{Page: s.For(r), Menu: was.menu}
		p.User = was.user
		err := json.Unmarshal(kept.body.Bytes(), &p.Problem)
		if err == nil {
			p.Next, _ = time.Parse(time.RFC3339, p.Problem.Next) // zero if it is not known
			err = Show(w, r, kept.status, errorTemplate, p)
		}
		if err != nil {
			w.WriteHeader(kept.status)
			w.Write(kept.body.Bytes())
		}
	})
}

// problemKeeper keeps an answer that is a problem+json, and passes any other answer on.
type problemKeeper struct {
	http.ResponseWriter
	begun  bool
	status int
	body   *bytes.Buffer // nil: the answer is not a problem+json
}

func (k *problemKeeper) WriteHeader(status int) {
	if k.begun || k.body != nil {
		return
	}
	if k.Header().Get("Content-Type") == "application/problem+json" {
		k.status, k.body = status, new(bytes.Buffer)
		return
	}
	k.begun = status >= 200 || status == http.StatusSwitchingProtocols
	k.ResponseWriter.WriteHeader(status)
}

func (k *problemKeeper) Write(p []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	if k.body != nil {
		return k.body.Write(p)
	}
	return k.ResponseWriter.Write(p)
}

// ReadFrom lets the kernel send files by sendfile.
func (k *problemKeeper) ReadFrom(src io.Reader) (int64, error) {
	k.WriteHeader(http.StatusOK)
	if k.body != nil {
		return k.body.ReadFrom(src)
	}
	return io.Copy(k.ResponseWriter, src)
}

// Unwrap returns the writer below, for http.ResponseController.
func (k *problemKeeper) Unwrap() http.ResponseWriter { return k.ResponseWriter }
