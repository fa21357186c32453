package httpd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"

	"sheaf/internal/problem"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/query"
)

// defaultLines is the limit of /v1/cdx where none is given.
const defaultLines = 10_000

// listTypes are what a list may call itself; the last is what curl says where it is not told.
var listTypes = []string{"text/plain", "text/uri-list", "application/octet-stream", "application/x-www-form-urlencoded"}

// flushAt is how much of an answer is gathered before it goes to the spool, in bytes.
const flushAt = 64 << 10

// cdx serves GET and POST /v1/cdx: index lines of the records that a query asks
// for (see package query). A POST's body names URLs and hosts, one a line. An
// answer may hold fewer lines than the limit, even none, and still go on: the Link header says so.
func (s *server) cdx(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	if r.URL.Query().Has("originals") {
		return &query.ParamError{Name: "originals", Value: r.URL.Query().Get("originals"), Why: "is for files; index lines tell of revisits as they are"}
	}
	leave, err := s.enterSearch(r, a)
	if err != nil {
		return err
	}
	defer leave()
	q, err := readQuery(w, r)
	if err != nil {
		return err
	}
	switch {
	case q.Limit > 0:
	case q.Paged():
		q.Limit = query.MaxLimit
	default:
		q.Limit = defaultLines
	}
	if q.CountsPages() {
		return s.countPages(w, r, a, q)
	}
	body := newSpool()
	defer body.Close()
	coded := coder{to: body, gzip: q.Gzip() && takesGzip(r)}
	var part bytes.Buffer
	flush := func() error {
		_, err := coded.Write(part.Bytes())
		part.Reset()
		return err
	}
	out := query.NewWriter(&part, q)
	ctx := r.Context()
	next, err := q.Run(ctx, s.Library, a, s.Budget, func(c query.Record) error {
		if err := out.Add(ctx, c); err != nil || part.Len() < flushAt {
			return err
		}
		return flush()
	})
	if err != nil {
		return err
	}
	out.Close(next)
	if err := errors.Join(flush(), coded.Close()); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Vary", "Accept-Encoding")
	if coded.writer != nil {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", q.Output.ContentType())
	h.Set("Cache-Control", "private, no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", body.etag())
	if next != nil {
		h.Set("Link", fmt.Sprintf(`<%s>; rel="next"`, nextURL(r.URL, next)))
	}
	http.ServeContent(w, r, "", time.Time{}, body.content())
	return nil
}

// countPages tells how many pages an answer has: as pywb does, in JSON, and as text the
// number alone, as the Internet Archive does.
func (s *server) countPages(w http.ResponseWriter, r *http.Request, a *account.Account, q *query.Query) error {
	pages, err := q.Pages(r.Context(), s.Library, a)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	if q.Output != query.Text {
		return answerJSON(w, http.StatusOK, pages)
	}
	w.Header().Set("Content-Type", q.Output.ContentType())
	_, err = fmt.Fprintln(w, pages.Pages)
	return err
}

// coder compresses an answer, if it may and it is worth it.
type coder struct {
	to     io.Writer
	gzip   bool
	begun  bool
	writer *gzip.Writer // nil: it is not compressed
}

// worthGzip is how long an answer is at least that is compressed, in bytes.
const worthGzip = 4 << 10

// Write takes a part of the answer. The first one decides; a long answer's is long.
func (c *coder) Write(p []byte) (int, error) {
	if !c.begun && c.gzip && len(p) >= worthGzip {
		var err error
		if c.writer, err = gzip.NewWriterLevel(c.to, gzip.BestSpeed); err != nil {
			return 0, err
		}
	}
	c.begun = true
	if c.writer != nil {
		return c.writer.Write(p)
	}
	return c.to.Write(p)
}

func (c *coder) Close() error {
	if c.writer == nil {
		return nil
	}
	return c.writer.Close()
}

// readQuery reads the parameters of a request, and a POST's list.
func readQuery(w http.ResponseWriter, r *http.Request) (*query.Query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem.New(http.StatusBadRequest, "parameter", fmt.Sprintf("query %.200q: %v", r.URL.RawQuery, err))
	}
	var list []serve.Target
	if r.Method == http.MethodPost {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && !slices.Contains(listTypes, kind) {
			return nil, problem.New(http.StatusUnsupportedMediaType, "media_type",
				fmt.Sprintf("a body of %s; send URLs and hosts, one a line, as text/plain", kind))
		}
		if list, err = query.ReadList(http.MaxBytesReader(w, r.Body, query.MaxListBytes)); err != nil {
			return nil, err
		}
	}
	return query.Parse(values, list)
}

// nextURL is the request's own with another cursor.
func nextURL(of *url.URL, next *query.Cursor) string {
	values := of.Query()
	values.Del("resumeKey")
	values.Del("offset") // the cursor knows what is left of it
	values.Set("cursor", next.String())
	more := url.URL{Path: of.Path, RawQuery: values.Encode()}
	return more.String()
}

// queryProblem tells what is wrong with a query; nil where the error is another.
func queryProblem(err error) error {
	var parameter *query.ParamError
	switch {
	case errors.As(err, &parameter):
		return problem.New(http.StatusBadRequest, "parameter", parameter.Error())
	case errors.Is(err, query.ErrExpired):
		return problem.New(http.StatusGone, "cursor_expired", err.Error())
	}
	return nil
}
