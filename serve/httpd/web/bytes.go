package web

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/problem"
	"sheaf/internal/webpage"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/records"
	"sheaf/serve/replay"
	"sheaf/serve/texts"
)

// rewriteVersion is part of the ETags. Raise it when rewriting changes.
const rewriteVersion = "3"

// etagOf returns the strong ETag of what is sent of version i. The ETag of a page with a banner
// also depends on the banner, which is about all versions and in the reader's language.
func etagOf(r *http.Request, all mementos, i int, mode replay.Mode, parts []*part) string {
	c := all[i]
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s %s", c.Digest, replay.RecordPath(c.Time, c.ID(), mode, c.URL), rewriteVersion)
	for _, p := range parts {
		fmt.Fprintf(sum, " %s", p.ID())
	}
	if mode == replay.TextOnly {
		fmt.Fprintf(sum, " %d", texts.Version)
	}
	if mode == replay.Plain {
		fmt.Fprintf(sum, " %d %d %s", i, len(all), webpage.Language(r))
		for _, j := range []int{0, i - 1, i + 1, len(all) - 1} {
			if j >= 0 && j < len(all) {
				fmt.Fprintf(sum, " %s %s", all[j].Digest, replay.Path(all[j].Time, mode, all[j].URL))
			}
		}
		for _, one := range all {
			io.WriteString(sum, replay.Timestamp(one.Time))
		}
	}
	return fmt.Sprintf(`"%x"`, sum.Sum(nil)[:16])
}

// succeeded reports whether a version is shown with a status of success.
func succeeded(c *records.Capture) bool {
	return shownStatus(answered(c).Status)/100 == 2
}

// conditions evaluates If-Match and If-None-Match (RFC 9110, 13.2.2). If the client already has the
// answer, unchanged is the answer's tag; otherwise it is empty. There is no Last-Modified to go by.
func conditions(r *http.Request, etag string) (unchanged string, err error) {
	if list := strings.Join(r.Header.Values("If-Match"), ","); list != "" && listed(list, etag, true) == "" {
		return "", problem.New(http.StatusPreconditionFailed, "changed", "what is here now has another ETag than If-Match names")
	}
	return listed(strings.Join(r.Header.Values("If-None-Match"), ","), etag, false), nil
}

// listed returns the tag in a list that equals etag or its variant in gzip; "" if none does.
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

// inGzip returns the ETag of the variant in gzip.
func inGzip(etag string) string { return strings.TrimSuffix(etag, `"`) + `-gzip"` }

// send sends a body as it is, or ranges of it. A client that takes gzip gets the body as it is
// stored, not inflated; ranges are then ranges of the gzip.
func (p *Pages) send(w *guard.Answer, r *http.Request, c *records.Capture, answer *records.Response, body io.Reader) error {
	status := shownStatus(answer.Status)
	if status == http.StatusNoContent || status == http.StatusResetContent {
		w.WriteHeader(status)
		return nil
	}
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	stored, err := c.Body()
	whole, isJoined := answer.Body.(*joined)
	if err != nil && !isJoined || status != http.StatusOK {
		return p.sendWhole(w, r, status, answer.Size, body) // ranges are for status 200 only (RFC 9110, 14.2)
	}
	var content *guard.Content
	if isJoined {
		content = &guard.Content{Size: answer.Size, Open: func(off, _ int64) (io.ReadCloser, error) { return whole.from(off), nil }}
	} else if guard.TakesGzip(r) && stored.Size() < answer.Size {
		content = &guard.Content{Size: stored.Size(), Open: func(off, n int64) (io.ReadCloser, error) {
			if off == 0 {
				return c.OpenGzip(r.Context())
			}
			return stored.OpenRange(r.Context(), off, n) // gzip's CRC-32 shows damage to a client that joins parts
		}}
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.FormatInt(content.Size, 10)) // ServeContent leaves it out for encoded bodies
		h.Set("ETag", inGzip(h.Get("ETag")))
	} else {
		inMemory, checked := answer.Body.(io.ReadSeeker)
		content = &guard.Content{Size: answer.Size, Forward: !checked, Open: func(off, _ int64) (io.ReadCloser, error) {
			if checked {
				_, err := inMemory.Seek(off, io.SeekStart)
				return io.NopCloser(inMemory), err
			}
			again, err := c.Response(r.Context())
			if err != nil {
				return nil, err
			}
			return again.Body, nil
		}}
		content.Begun(io.NopCloser(body))
	}
	defer content.Close()
	h.Del("Accept-Ranges")
	guard.BoundRanges(r)
	if content.Forward && strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // the body could not be checked before the end of each range
	}
	http.ServeContent(w, r, "", time.Time{}, content)
	if content.Err() != nil {
		p.broken(r, content.Err())
	}
	return nil
}

// sendWhole sends all of a body.
func (p *Pages) sendWhole(w *guard.Answer, r *http.Request, status int, size int64, body io.Reader) error {
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.Copy(w, body); err != nil {
		p.broken(r, err)
	}
	return nil
}
