package httpd

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/problem"
	"sheaf/serve"
	"sheaf/serve/replay"
)

// Stored bodies as they are: their tags, the conditions of requests for them, and ranges of them.

// rewriteVersion is part of every rewritten page's ETag: it changes with what rewriting does.
const rewriteVersion = "2"

// etag names what is sent of a version, strongly: of a page shown to people also by
// what its banner says, which is of its neighbours and in their language.
func (s *server) etag(r *http.Request, all mementos, i int, mode replay.Mode) string {
	c := all[i]
	id := fmt.Sprintf("%s %s %s", c.Digest, replay.Path(c.Time, mode, c.URL), rewriteVersion)
	if mode == replay.Plain {
		id += fmt.Sprintf(" %d %d %s", i, len(all), languageOf(r))
		for _, j := range []int{0, i - 1, i + 1, len(all) - 1} {
			if j >= 0 && j < len(all) {
				id += fmt.Sprintf(" %s %s", all[j].Digest, replay.Path(all[j].Time, mode, all[j].URL))
			}
		}
	}
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf(`"%x"`, sum[:16])
}

// succeeded reports whether a version is shown with a status of success.
func succeeded(c *serve.Capture) bool {
	if c.Original != nil {
		c = c.Original
	}
	return shownStatus(c.Status)/100 == 2
}

// conditions heeds If-Match and If-None-Match (RFC 9110, 13.2.2). unchanged is the tag of what the client
// has, which is what it would get; empty where it is not. There are no dates of change to go by.
func conditions(r *http.Request, etag string) (unchanged string, err error) {
	if list := strings.Join(r.Header.Values("If-Match"), ","); list != "" && listed(list, etag, true) == "" {
		return "", problem.New(http.StatusPreconditionFailed, "changed", "what is here now has another ETag than If-Match names")
	}
	return listed(strings.Join(r.Header.Values("If-None-Match"), ","), etag, false), nil
}

// listed finds an entity tag, or that of its variant in gzip, in a list; empty where it is not there.
func listed(list, etag string, strong bool) string {
	for tag := range strings.SplitSeq(list, ",") {
		tag = strings.TrimSpace(tag)
		if !strong {
			tag = strings.TrimPrefix(tag, "W/")
		}
		switch tag {
		case "*":
			return etag
		case etag, inGzip(etag):
			return tag
		}
	}
	return ""
}

// inGzip is the ETag of what has one, sent in gzip.
func inGzip(etag string) string { return strings.TrimSuffix(etag, `"`) + `-gzip"` }

// takesGzip reports whether a client takes gzip (RFC 9110, 12.5.3).
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return !strings.HasPrefix(strings.ReplaceAll(weight, " ", ""), "q=0") || strings.ContainsAny(weight, "123456789")
		}
	}
	return false
}

// send sends a body as it is, or the ranges of it that were asked for. To who takes gzip, a page
// leaves as it is stored, not inflated; ranges then are of that.
func (s *server) send(w *counter, r *http.Request, c *serve.Capture, answer *serve.Response, body io.Reader) error {
	status := shownStatus(answer.Status)
	if status == http.StatusNoContent || status == http.StatusResetContent {
		w.WriteHeader(status)
		return nil
	}
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	stored, err := c.Body()
	if err != nil || status != http.StatusOK {
		return s.sendWhole(w, r, status, answer.Size, body) // ranges are of what is 200 (RFC 9110, 14.2)
	}
	content := &bodyContent{size: answer.Size, body: io.NopCloser(body)}
	inMemory, checked := answer.Body.(io.ReadSeeker)
	content.forward = !checked
	content.open = func(off, _ int64) (io.ReadCloser, error) {
		if checked {
			_, err := inMemory.Seek(off, io.SeekStart)
			return io.NopCloser(inMemory), err
		}
		again, err := c.Response(r.Context())
		if err != nil {
			return nil, err
		}
		return again.Body, nil
	}
	if takesGzip(r) && stored.Size() < answer.Size {
		content = &bodyContent{size: stored.Size()}
		content.open = func(off, n int64) (io.ReadCloser, error) {
			if off == 0 {
				return c.OpenGzip(r.Context())
			}
			return stored.OpenRange(r.Context(), off, n) // whoever puts parts together finds damage by gzip's CRC-32
		}
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.FormatInt(content.size, 10)) // else ServeContent would leave it out
		h.Set("ETag", inGzip(h.Get("ETag")))
	}
	defer content.Close()
	h.Del("Accept-Ranges")
	boundRanges(r)
	if content.forward && strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // where several ranges end is known to nobody who could check the body there
	}
	http.ServeContent(w, r, "", time.Time{}, content)
	if content.err != nil {
		s.broken(r, content.err)
	}
	return nil
}

// sendWhole sends all of a body.
func (s *server) sendWhole(w *counter, r *http.Request, status int, size int64, body io.Reader) error {
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.Copy(w, body); err != nil {
		s.broken(r, err)
	}
	return nil
}

// bodyContent is a stored body as http.ServeContent wants it: nothing is opened before it is read.
type bodyContent struct {
	open func(off, n int64) (io.ReadCloser, error)
	size int64
	pos  int64         // where the next Read begins
	body io.ReadCloser // stands at bodyPos; may be nil
	err  error         // why reading failed

	bodyPos int64

	// forward says that body is only read from its beginning to its end, where it was checked: then
	// the last bytes before until are given once that is done.
	forward bool
	until   int64 // where the range ends; 0: not known
}

// Seek implements io.Seeker.
func (b *bodyContent) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.pos
	case io.SeekEnd:
		offset += b.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek to %d, before the beginning", offset)
	}
	b.pos = offset
	return offset, nil
}

// Read implements io.Reader.
func (b *bodyContent) Read(p []byte) (int, error) {
	if b.pos >= b.size {
		return 0, io.EOF
	}
	if err := b.place(); err != nil {
		b.err = err
		return 0, err
	}
	n, err := b.body.Read(p[:min(int64(len(p)), b.size-b.pos)])
	b.pos += int64(n)
	b.bodyPos = b.pos
	if errors.Is(err, io.EOF) && b.pos < b.size {
		err = io.ErrUnexpectedEOF
	}
	if b.forward && b.until > 0 && b.pos >= b.until && (err == nil || err == io.EOF) {
		if _, failed := io.Copy(io.Discard, b.body); failed != nil {
			n, err = 0, failed
		}
		b.bodyPos = b.size
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// place makes body stand where the next Read begins.
func (b *bodyContent) place() (err error) {
	if b.body != nil && b.bodyPos != b.pos && (!b.forward || b.bodyPos > b.pos) {
		b.Close()
	}
	if b.body == nil {
		if b.body, err = b.open(b.pos, b.size-b.pos); err != nil {
			b.body = nil
			return err
		}
		b.bodyPos = b.pos
		if b.forward {
			b.bodyPos = 0
		}
	}
	if skip := b.pos - b.bodyPos; skip > 0 {
		n, err := io.CopyN(io.Discard, b.body, skip)
		b.bodyPos += n
		return err
	}
	return nil
}

// Close ends what is open.
func (b *bodyContent) Close() {
	if b.body != nil {
		b.body.Close()
		b.body = nil
	}
}
