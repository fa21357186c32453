package httpd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"sheaf/internal/transfers"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/bandwidth"
	"sheaf/serve/replay"
)

// memento serves version i of a page.
func (s *server) memento(w http.ResponseWriter, r *http.Request, a *account.Account, all mementos, i int, mode replay.Mode) error {
	permit, err := s.Library.Access.Begin(r.Context(), a)
	if err != nil {
		return err
	}
	defer permit.Close()
	c := all[i]
	h := w.Header()
	h.Set("Memento-Datetime", c.Time.UTC().Format(http.TimeFormat))
	h.Set("Cache-Control", "private, no-cache")
	h.Set("X-DNS-Prefetch-Control", "off")
	s.link(w, r, all, i, c.URL)
	etag := s.etag(r, all, i, mode)
	// RFC 9110, 13.2.1: conditions are of answers that would be a success.
	if succeeded(c) {
		if unchanged, err := conditions(r, etag); err != nil {
			return err
		} else if unchanged != "" {
			h.Set("ETag", unchanged)
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	answer, err := c.Response(r.Context())
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	h.Set("ETag", etag)
	h.Set("Accept-Ranges", "none") // but for whole bodies that lie here: see send
	originalHeaders(h, answer)
	if c.Truncated != "" {
		h.Set("X-Archive-Truncated", c.Truncated)
	}
	out := &counter{ResponseWriter: pacedAnswer{w, bandwidth.Writer(r.Context(), w, permit.Take)}}
	start := time.Now()
	defer func() { s.recordPage(r, a, start, out) }()
	if mode != replay.Bytes && answer.Status/100 == 3 && answer.Get("Location") != "" {
		return s.redirect(out, r, c, answer, mode)
	}
	if mode == replay.Bytes {
		policy(h, storedType(answer), false)
		setType(h, storedType(answer))
		return s.send(out, r, c, answer, answer.Body)
	}
	return s.page(out, r, all, i, answer, mode)
}

// pacedAnswer is an answer whose body is sent as fast as the account may read.
type pacedAnswer struct {
	http.ResponseWriter
	body io.Writer
}

func (p pacedAnswer) Write(b []byte) (int, error) { return p.body.Write(b) }

// redirect passes on a redirect that the server gave, to where its target lies in the archive.
func (s *server) redirect(w http.ResponseWriter, r *http.Request, c *serve.Capture, answer *serve.Response, mode replay.Mode) error {
	to := locationOf(c, answer)
	if to == "" {
		return s.show(w, r, http.StatusOK, redirectTemplate, missingPage{screen: s.screen(r, c.URL), Near: []place{{URL: answer.Get("Location")}}})
	}
	w.Header().Set("Location", s.origin(r)+replay.Path(c.Time, mode, to))
	w.WriteHeader(shownStatus(answer.Status))
	return nil
}

// shownStatus is the status with which a stored answer is shown: its own, but for
// those that speak of the exchange itself.
func shownStatus(status int) int {
	switch {
	case status < 200, status > 599, status == http.StatusNotModified, status == http.StatusPartialContent,
		status == http.StatusProxyAuthRequired, status == http.StatusUnauthorized, status == http.StatusRequestTimeout:
		return http.StatusOK
	}
	return status
}

// Bounds on the stored headers that are shown.
const (
	maxOriginalHeaders = 60
	maxOriginalHeader  = 4 << 10 // bytes
)

// originalHeaders shows the stored headers under names of their own.
func originalHeaders(h http.Header, answer *serve.Response) {
	for i, line := range answer.Headers {
		if i == maxOriginalHeaders {
			return
		}
		if name := "X-Archive-Orig-" + line.Name; httpguts.ValidHeaderFieldName(name) && plain(line.Value) && len(line.Value) <= maxOriginalHeader {
			h.Add(name, line.Value)
		}
	}
}

// plain reports whether a stored value may stand in a header of ours.
func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f })
}

const pdf = "application/pdf"

// policy sets what a browser may do with a stored body. Chromium shows PDF outside
// of the page's origin, and not at all in a sandbox: what may do without a policy leaves
// as PDF and nothing else, since of a stored "application/pdf;, text/html" browsers take the last.
func policy(h http.Header, contentType string, framed bool) {
	switch {
	case replay.MediaType(contentType) == pdf:
		h.Set("X-Content-Type-Options", "nosniff")
	case framed:
		h.Set("Content-Security-Policy", replay.FramePolicy)
	default:
		h.Set("Content-Security-Policy", replay.Policy)
	}
}

// storedType is the Content-Type as it was stored, "" where it cannot be sent.
func storedType(answer *serve.Response) string {
	if t := answer.Get("Content-Type"); plain(t) {
		return t
	}
	return ""
}

// setType sets a Content-Type; without one browsers judge by the bytes, as they did then.
func setType(h http.Header, contentType string) {
	h["Content-Type"] = nil // net/http would guess
	if replay.MediaType(contentType) == pdf {
		contentType = pdf
	}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
}

// broken ends an answer that has begun and cannot be gone on with: the client must
// not take a part for the whole.
func (s *server) broken(r *http.Request, err error) {
	if r.Context().Err() == nil {
		s.Log.ErrorContext(r.Context(), "page broken off", "path", r.URL.Path, "err", err)
	}
	panic(http.ErrAbortHandler)
}

// page sends a version as its reader should see it.
func (s *server) page(w *counter, r *http.Request, all mementos, i int, answer *serve.Response, mode replay.Mode) error {
	c := all[i]
	contentType := storedType(answer)
	doc, err := replay.Open(answer.Body, contentType, c.URL)
	if err != nil {
		return err
	}
	h := w.Header()
	policy(h, contentType, mode == replay.Frame && doc.Kind == replay.HTML)
	if doc.Kind == replay.Other {
		setType(h, contentType)
		return s.send(w, r, c, answer, doc)
	}
	h.Set("Content-Type", doc.ContentType(contentType))
	var banner []byte
	if mode == replay.Plain && (doc.Kind == replay.HTML || doc.Kind == replay.XHTML) {
		h.Set("Vary", "Accept-Language")
		if banner, err = s.banner(r, all, i, doc); err != nil {
			return err
		}
		if doc.Frameset {
			return s.framed(w, r, c, shownStatus(answer.Status), banner)
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
		s.broken(r, err)
	}
	return nil
}

// framed shows a page that is made of frames, and so has no place for a banner, below one.
func (s *server) framed(w http.ResponseWriter, r *http.Request, c *serve.Capture, status int, banner []byte) error {
	page := framedPage{screen: s.screen(r, c.URL), Banner: banner, Path: replay.Path(c.Time, replay.Frame, c.URL)}
	return s.show(w, r, status, framedTemplate, page)
}

// recordPage notes what a page took.
func (s *server) recordPage(r *http.Request, a *account.Account, start time.Time, out *counter) {
	if out.status != http.StatusOK && out.status != http.StatusPartialContent || r.Method == http.MethodHead {
		return
	}
	t := transfers.Transfer{
		At: start, Direction: transfers.Download, Protocol: "http", Who: a.Name, Name: r.URL.Path,
		Bytes: out.bytes.Load(), Took: time.Since(start), Outcome: transfers.OK, Remote: r.RemoteAddr,
	}
	if r.Context().Err() != nil {
		t.Outcome = transfers.Aborted
	}
	if err := s.Recorder.Record(context.WithoutCancel(r.Context()), t); err != nil {
		s.Log.ErrorContext(r.Context(), "download not recorded", "account", a.Name, "path", r.URL.Path, "err", err)
	}
}

// ascii writes markup without characters beyond ASCII, for pages in any encoding.
func ascii(markup []byte) []byte {
	if !slices.ContainsFunc(markup, func(b byte) bool { return b >= 0x80 }) {
		return markup
	}
	var out bytes.Buffer
	for _, r := range string(markup) {
		if r < 0x80 {
			out.WriteByte(byte(r))
		} else {
			fmt.Fprintf(&out, "&#%d;", r)
		}
	}
	return out.Bytes()
}
