package web

import (
	"io"
	"net/http"

	"sheaf/internal/problem"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/records"
	"sheaf/serve/texts"
)

// text sends the text of a page: its title, and below it the main text. At most as many texts are
// taken out of pages at once as there are processors.
func (p *Pages) text(w *guard.Answer, r *http.Request, answer *records.Response) error {
	body, err := io.ReadAll(io.LimitReader(answer.Body, texts.MaxBody+1))
	if err != nil {
		return err
	}
	if !texts.IsPage(answer.ContentType(), body) {
		return problem.New(http.StatusNotFound, "no-text", "this is no HTML; leave out txt_ to see it")
	}
	select {
	case p.comparing <- struct{}{}:
		defer func() { <-p.comparing }()
	case <-r.Context().Done():
		return r.Context().Err()
	}
	t := texts.Extract(body, answer.ContentType())
	h := w.Header()
	policy(h, "text/plain", false)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if t.Language != "" {
		h.Set("Content-Language", t.Language)
	}
	w.WriteHeader(shownStatus(answer.Status))
	if r.Method == http.MethodHead {
		return nil
	}
	_, err = io.WriteString(w, t.Title+"\n"+t.Main+"\n")
	return err
}
