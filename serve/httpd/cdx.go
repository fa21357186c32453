package httpd

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/records"
)

// defaultLines is the limit of /v1/cdx if none is given.
const defaultLines = 10_000

// flushAt is how many bytes of lines are gathered before they are compressed and spooled.
const flushAt = 64 << 10

// parts are empty buffers for lines.
var parts = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// cdx answers with index lines of the records that a query asks for (see package records). The body
// of a POST is a list of URLs and hosts, one a line. If lines may follow, the answer has a Link
// rel="next", even if it has fewer lines than the limit, or none.
func (q *Queries) cdx(w http.ResponseWriter, r *http.Request, a *account.Account, in *guard.Place) error {
	wanted, err := readQuery(w, r)
	if err != nil {
		return err
	}
	switch {
	case wanted.Limit > 0:
	case wanted.Paged():
		wanted.Limit = records.MaxLimit
	default:
		wanted.Limit = defaultLines
	}
	if wanted.CountsPages() {
		pages, err := wanted.Pages(r.Context(), q.Library.Records, a)
		if err != nil {
			return err
		}
		in.Leave() // sending is no search
		return sendPages(w, wanted, pages)
	}
	body := q.Limits.Spool(r, a, wanted.Gzip() && guard.TakesGzip(r))
	defer body.Close()
	next, err := q.lines(r, a, wanted, body)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Vary", "Accept-Encoding")
	if body.Compressed() {
		h.Set("Content-Encoding", "gzip")
	}
	if next != nil {
		// The cursor has what is left of the offset.
		route.Link(r.Context(), "next", map[string]string{"cursor": next.String(), "resumeKey": "", "offset": ""})
	}
	in.Leave()
	body.Send(w, r, wanted.Output.ContentType())
	return nil
}

// lines writes the lines of an answer to body. It returns the cursor of the next answer; nil at the
// end.
func (q *Queries) lines(r *http.Request, a *account.Account, wanted *records.Query, body *guard.Spool) (*records.Cursor, error) {
	part := parts.Get().(*bytes.Buffer)
	defer func() {
		if part.Cap() <= 2*flushAt {
			part.Reset()
			parts.Put(part)
		}
	}()
	flush := func() error {
		_, err := body.Write(part.Bytes())
		part.Reset()
		return err
	}
	out := records.NewIndexWriter(part, wanted)
	next, err := wanted.Run(r.Context(), q.Library.Records, a, q.Budget, func(c records.Record) error {
		if err := out.Add(r.Context(), c); err != nil || part.Len() < flushAt {
			return err
		}
		return flush()
	})
	if err != nil {
		return nil, err
	}
	out.Close(next)
	return next, errors.Join(flush(), body.Finish())
}

// sendPages answers with the number of pages: in JSON, like pywb, or as a bare number with
// output=text, like the Internet Archive.
func sendPages(w http.ResponseWriter, wanted *records.Query, pages records.Pages) error {
	if wanted.Output != records.Text {
		return problem.JSON(w, http.StatusOK, pages)
	}
	w.Header().Set("Content-Type", wanted.Output.ContentType())
	_, err := fmt.Fprintln(w, pages.Pages)
	return err
}
