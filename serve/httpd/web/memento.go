package web

import (
	"cmp"
	_ "embed"
	"html/template"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"sheaf/archive"
	"sheaf/internal/media"
	"sheaf/internal/problem"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/records"
	"sheaf/serve/replay"
	"sheaf/serve/texts"
)

//go:embed frame.html
var frameText string

var (
	redirectTemplate = webpage.ParseFiles(templates, "redirect.html")
	frameTemplate    = sync.OnceValue(func() *template.Template { return template.Must(template.New("layout").Parse(frameText)) })
)

// memento serves version i of a page. If parts are given, they make up its whole body.
func (p *Pages) memento(w http.ResponseWriter, r *http.Request, a *account.Account, all mementos, i int, mode replay.Mode, parts []*part) error {
	permit, err := p.Access.Begin(r.Context(), a)
	if err != nil {
		return err
	}
	defer permit.Close()
	c := all[i]
	h := w.Header()
	h.Set("Memento-Datetime", c.Time.UTC().Format(http.TimeFormat))
	h.Set("X-DNS-Prefetch-Control", "off")
	p.link(w, r, all, i, c.URL)
	etag := etagOf(r, all, i, mode, parts)
	// Conditions are for answers that would be a success (RFC 9110, 13.2.1).
	if succeeded(c) {
		if unchanged, err := conditions(r, etag); err != nil {
			return err
		} else if unchanged != "" {
			h.Set("ETag", unchanged)
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	answer, err := open(r, c, mode == replay.Bytes && parts == nil)
	if err != nil {
		return err
	}
	defer func() { answer.Body.Close() }()
	h.Set("ETag", etag)
	h.Set("Accept-Ranges", "none") // send takes it back for bodies that are sent as stored
	originalHeaders(h, answer)
	switch {
	case parts != nil:
		if err := joinParts(r.Context(), h, answer, parts); err != nil {
			return err
		}
	case answer.Status == http.StatusPartialContent:
		partHeaders(h, c, answer)
	}
	if c.Truncated != "" {
		h.Set("X-Archive-Truncated", c.Truncated)
	}
	out := &guard.Answer{ResponseWriter: pacedAnswer{w, account.Writer(r.Context(), w, permit.Take)}}
	start := time.Now()
	defer func() { p.Sender.Record(r, a, start, out) }()
	if mode != replay.Bytes && answer.Status/100 == 3 && answer.Get("Location") != "" {
		return p.redirect(out, r, a, c, answer, mode)
	}
	if mode == replay.Bytes {
		policy(h, storedType(answer), false)
		setType(h, storedType(answer))
		return p.send(out, r, c, answer, answer.Body)
	}
	if mode == replay.TextOnly {
		return p.text(out, r, answer)
	}
	return p.page(out, r, all, i, answer, mode)
}

// pacedAnswer is an answer whose body is sent no faster than the account may read.
type pacedAnswer struct {
	http.ResponseWriter
	body io.Writer
}

func (p pacedAnswer) Write(b []byte) (int, error) { return p.body.Write(b) }

// redirect answers with a stored redirect to its target in the archive. If the target is no web
// address, or the redirects that follow never end at a page, it shows a page that says where the
// redirect led.
func (p *Pages) redirect(w http.ResponseWriter, r *http.Request, a *account.Account, c *records.Capture, answer *records.Response, mode replay.Mode) error {
	to, place := locationOf(c, answer), ""
	if to != "" {
		var err error
		if place, err = p.lead(r.Context(), a, c, to, mode); err != nil {
			return err
		}
	}
	if place == "" {
		return webpage.Show(w, r, http.StatusOK, redirectTemplate, struct {
			screen
			To string
		}{p.screen(r, c.URL), answer.Get("Location")})
	}
	w.Header().Set("Location", p.origin(r)+place)
	w.WriteHeader(shownStatus(answer.Status))
	return nil
}

// shownStatus returns the status with which a stored answer is shown. It is the stored status, or
// 200 if the status was about the connection, a cache or the log-in at that time.
func shownStatus(status int) int {
	switch {
	case status < 200, status > 599, status == http.StatusNotModified,
		status == http.StatusProxyAuthRequired, status == http.StatusUnauthorized, status == http.StatusRequestTimeout:
		return http.StatusOK
	}
	return status
}

// partHeaders makes a stored 206 a 200 if its body is all of the page. Otherwise it says which
// part of the page the body is.
func partHeaders(h http.Header, c *records.Capture, answer *records.Response) {
	if body := answered(c); body.Kind == archive.Page || c.Original != nil && c.Original.Kind == archive.Page {
		answer.Status = http.StatusOK
	} else if of := answer.Get("Content-Range"); plain(of) && of != "" && c.Truncated == "" {
		h.Set("Content-Range", of)
	}
}

// Bounds of the stored headers that are shown.
const (
	maxOriginalHeaders = 60
	maxOriginalHeader  = 4 << 10 // bytes
)

// originalHeaders adds the stored headers as X-Archive-Orig-….
func originalHeaders(h http.Header, answer *records.Response) {
	for i, line := range answer.Headers {
		if i == maxOriginalHeaders {
			return
		}
		if name := "X-Archive-Orig-" + line.Name; httpguts.ValidHeaderFieldName(name) && plain(line.Value) && len(line.Value) <= maxOriginalHeader {
			h.Add(name, line.Value)
		}
	}
}

// plain reports whether a stored value may be sent in a header.
func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f })
}

const pdf = "application/pdf"

// policy sets what a browser may do with a stored body. PDF has no policy, because Chromium shows
// no PDF in a sandbox, and shows PDF outside the page's origin anyway. PDF must therefore be sent
// as nothing but PDF: see setType.
func policy(h http.Header, contentType string, framed bool) {
	switch {
	case media.TypeOf(contentType).Essence == pdf:
		h.Set("X-Content-Type-Options", "nosniff")
	case framed:
		h.Set("Content-Security-Policy", replay.FramePolicy)
	default:
		h.Set("Content-Security-Policy", replay.Policy)
	}
}

// storedType returns the stored Content-Type, or "" if it cannot be sent in a header.
func storedType(answer *records.Response) string {
	if t := answer.ContentType(); plain(t) {
		return t
	}
	return ""
}

// setType sets the Content-Type. If contentType is empty, browsers judge by the bytes, as they did
// then.
func setType(h http.Header, contentType string) {
	h["Content-Type"] = nil // net/http would guess
	// Browsers read "text/html, application/pdf" as PDF too.
	if media.TypeOf(contentType).Essence == pdf {
		contentType = pdf
	}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
}

// broken cuts the connection of an answer that has begun and cannot be finished: the client must
// not take a part for the whole.
func (p *Pages) broken(r *http.Request, err error) {
	if r.Context().Err() == nil {
		p.Log.ErrorContext(r.Context(), "page broken off", "path", r.URL.Path, "err", err)
	}
	panic(http.ErrAbortHandler)
}

// page sends a version for reading: rewritten, if it is HTML or CSS.
func (p *Pages) page(w *guard.Answer, r *http.Request, all mementos, i int, answer *records.Response, mode replay.Mode) error {
	c := all[i]
	contentType := storedType(answer)
	doc, err := replay.Open(answer.Body, contentType, c.URL)
	if err != nil {
		return err
	}
	doc.Refresh = cmp.Or(doc.Refresh, replay.Refresh(answer.Get("Refresh"), c.URL))
	h := w.Header()
	policy(h, contentType, mode == replay.Frame && doc.Kind == replay.HTML)
	if doc.Kind == replay.Other {
		setType(h, contentType)
		return p.send(w, r, c, answer, doc)
	}
	h.Set("Content-Type", doc.ContentType())
	var banner []byte
	if mode == replay.Plain && (doc.Kind == replay.HTML || doc.Kind == replay.XHTML) {
		h.Set("Vary", webpage.VaryLanguage)
		if banner, err = p.banner(r, all, i, doc); err != nil {
			return err
		}
		if doc.Frameset {
			return p.framed(w, r, c, shownStatus(answer.Status), banner)
		}
		if find := p.find(r); find != "" {
			h.Set("Content-Security-Policy", replay.PolicyWithForm(find))
		}
	}
	w.WriteHeader(shownStatus(answer.Status))
	if r.Method == http.MethodHead {
		return nil
	}
	err = doc.Rewrite(w, c.Time, mode == replay.Frame, banner)
	if err == nil {
		err = answer.Check()
	}
	if err != nil {
		p.broken(r, err)
	}
	return nil
}

// framePolicy is the Content-Security-Policy of the page around a page of frames. It has no
// sandbox, because a sandbox would apply to all frames within: see replay.FramePolicy.
const framePolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"

// framed shows the banner and, in a frame below it, a page of frames. Such a page has no place for
// a banner itself.
func (p *Pages) framed(w http.ResponseWriter, r *http.Request, c *records.Capture, status int, banner []byte) error {
	w.Header().Set("Content-Security-Policy", framePolicy)
	return webpage.Show(w, r, status, frameTemplate, struct {
		screen
		Banner template.HTML
		Path   string
	}{p.screen(r, c.URL), template.HTML(banner), replay.Path(c.Time, replay.Frame, c.URL)})
}

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
