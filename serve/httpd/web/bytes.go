package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/internal/problem"
	"sheaf/internal/stream"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/library"
	"sheaf/serve/records"
	"sheaf/serve/replay"
	"sheaf/serve/texts"
)

// rewriteVersion is part of the ETags. Raise it when rewriting changes.
const rewriteVersion = "3"

// etagOf returns the strong ETag of the answer for version i. The ETag of a page with a banner also
// depends on all versions and on the reader's language.
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

// succeeded reports whether a version is shown with a 2xx status.
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

// listed returns the first tag in a list that equals etag or its variant in gzip, or "". For "*" it
// returns etag. If strong is set, weak tags equal nothing.
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

// open opens a version's answer. If asStored is set and sentInGzip holds, the body is the stored
// gzip.
func open(r *http.Request, c *records.Capture, asStored bool) (*records.Response, error) {
	if asStored && sentInGzip(r, c) {
		return c.InGzip(r.Context())
	}
	return c.Response(r.Context())
}

// sentInGzip reports whether the client takes gzip and the body is stored in fewer bytes than it
// has.
func sentInGzip(r *http.Request, c *records.Capture) bool {
	if !guard.TakesGzip(r) {
		return false
	}
	page := cmp.Or(c.Original, c)
	stored, err := page.Body()
	return err == nil && stored.Size() < page.BodyLen
}

// send sends a body as it is, or ranges of it. A client that takes gzip gets the body as it is
// stored, not inflated; ranges are then ranges of the gzip.
func (p *Pages) send(w *guard.Answer, r *http.Request, c *records.Capture, answer *records.Response, body io.Reader) error {
	status := shownStatus(answer.Status)
	if status == http.StatusNoContent || status == http.StatusResetContent {
		w.WriteHeader(status)
		return nil
	}
	_, isJoined := answer.Body.(*joined)
	if !isJoined && !answer.Gzip && sentInGzip(r, c) { // it was inflated to find out its type
		stored, err := c.InGzip(r.Context())
		if err != nil {
			return err
		}
		defer stored.Body.Close()
		answer, body = stored, stored.Body
	}
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if answer.Gzip {
		h.Set("Content-Encoding", "gzip")
		h.Set("ETag", inGzip(h.Get("ETag")))
	}
	h.Set("Content-Length", strconv.FormatInt(answer.Size, 10))                             // ServeContent leaves it out for encoded bodies
	if cmp.Or(c.Original, c).Kind != archive.Page && !isJoined || status != http.StatusOK { // ranges are for status 200 only (RFC 9110, 14.2)
		return p.sendWhole(w, r, status, body)
	}
	h.Del("Accept-Ranges")
	return p.sendRanges(w, r, c, answer, body)
}

// sendRanges sends a body, or the ranges of it that are asked for.
func (p *Pages) sendRanges(w *guard.Answer, r *http.Request, c *records.Capture, answer *records.Response, body io.Reader) error {
	guard.BoundRanges(r)
	if inMemory, checked := answer.Body.(io.ReadSeeker); checked {
		http.ServeContent(w, r, "", time.Time{}, inMemory)
		return nil
	}
	parts, isJoined := answer.Body.(*joined)
	content := &stream.Content{Size: answer.Size, Forward: !isJoined && !answer.Gzip, Open: func(off, n int64) (io.ReadCloser, error) {
		if isJoined {
			return parts.whole.OpenRange(r.Context(), off, n)
		}
		if answer.Gzip && off > 0 { // gzip's CRC-32 shows damage to a client that joins parts
			stored, err := c.Body()
			if err != nil {
				return nil, err
			}
			return stored.OpenRange(r.Context(), off, n)
		}
		again, err := open(r, c, answer.Gzip)
		if err != nil {
			return nil, err
		}
		return again.Body, nil
	}}
	content.Begun(io.NopCloser(body))
	defer content.Close()
	if content.Forward && strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // the body could not be checked before the end of each range
	}
	http.ServeContent(w, r, "", time.Time{}, content)
	if content.Err() != nil {
		p.broken(r, content.Err())
	}
	return nil
}

// sendWhole sends all of a body. The header must have its length.
func (p *Pages) sendWhole(w *guard.Answer, r *http.Request, status int, body io.Reader) error {
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.Copy(w, body); err != nil {
		p.broken(r, err)
	}
	return nil
}

// Browsers fetch films in parts (206). If the parts that are here cover the whole, they are shown
// joined, as one body that takes ranges. Parts belong together if they are of one URL and one day
// and their heads agree on length, ETag and Last-Modified (RFC 9110, 15.3.7.3). Only parts that are
// stored whole count.

const (
	partsWithin = 24 * time.Hour
	maxParts    = 200 // limit of parts whose heads are read for one request, nearest in time first
)

// part is a stored part of a body.
type part struct {
	*records.Capture
	body        string // identifies the body that it is a part of
	first, size int64  // its place in that body
	of          int64  // length of that body
}

// partOf reads the head of a stored part. It returns nil if the record is damaged, is no part of a
// body, or has not all bytes of its range.
func partOf(ctx context.Context, c *records.Capture) (*part, error) {
	head, _, err := c.Beginning(ctx, 0)
	if _, ok := errors.AsType[*records.DamageError](err); ok {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &part{Capture: c, size: head.Size}
	var last int64
	if _, err := fmt.Sscanf(strings.ToLower(head.Get("Content-Range")), "bytes %d-%d/%d", &p.first, &last, &p.of); err != nil {
		return nil, nil
	}
	if p.first < 0 || last >= p.of || last-p.first+1 != p.size || p.size == 0 {
		return nil, nil
	}
	p.body = fmt.Sprintf("%d %q %q", p.of, head.Get("ETag"), head.Get("Last-Modified"))
	return p, nil
}

// join returns, in order, parts that together make the whole body of a record. It returns nil if
// the record is no part of a body, or if other parts are missing.
func (p *Pages) join(ctx context.Context, a *account.Account, c *records.Capture) ([]*part, error) {
	if rank(c) != rankPart || c.Original != nil || c.Truncated != "" {
		return nil, nil
	}
	one, err := partOf(ctx, c)
	if one == nil || err != nil {
		return nil, err
	}
	all, err := p.recordsOf(ctx, a, c.URL)
	if err != nil {
		return nil, err
	}
	away := func(of *records.Capture) time.Duration { return of.Time.Sub(c.Time).Abs() }
	all = slices.DeleteFunc(all, func(of *records.Capture) bool {
		return of.URL != c.URL || rank(of) != rankPart || of.Original != nil || of.Truncated != "" || away(of) > partsWithin
	})
	slices.SortStableFunc(all, func(a, b *records.Capture) int { return cmp.Compare(away(a), away(b)) })
	var parts []*part
	for _, of := range all[:min(len(all), maxParts)] {
		next, err := partOf(ctx, of)
		if err != nil {
			return nil, err
		}
		if next != nil && next.body == one.body {
			parts = append(parts, next)
		}
	}
	return cover(parts, one.of), nil
}

// cover chooses parts that together make a whole body of the given length. Each begins within or
// right behind the part before, and reaches furthest of all such parts. It returns nil if bytes are
// missing.
func cover(parts []*part, length int64) (chosen []*part) {
	for at := int64(0); at < length; {
		var best *part
		for _, p := range parts {
			if p.first <= at && p.first+p.size > at && (best == nil || p.first+p.size > best.first+best.size) {
				best = p
			}
		}
		if best == nil {
			return nil
		}
		chosen, at = append(chosen, best), best.first+best.size
	}
	return chosen
}

// joined is a body that is read from its parts. Each part is checked as it is read.
type joined struct {
	io.ReadCloser // from the beginning
	whole         *library.Joined
}

// rest is what a part has behind its first skip bytes.
type rest struct {
	*part
	skip int64
}

// OpenRange implements library.Ranges.
func (p rest) OpenRange(ctx context.Context, off, _ int64) (io.ReadCloser, error) {
	answer, err := p.Response(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, answer.Body, p.skip+off); err != nil {
		return nil, errors.Join(err, answer.Body.Close())
	}
	return answer.Body, nil
}

// joinParts turns the answer for one part into the answer for the whole body.
func joinParts(ctx context.Context, h http.Header, answer *records.Response, parts []*part) error {
	err := answer.Body.Close()
	whole := &library.Joined{Parts: len(parts), End: func(i int) int64 { return parts[i].first + parts[i].size }, Open: func(_ context.Context, i int, length int64) (library.Ranges, error) {
		return rest{parts[i], parts[i].size - length}, nil
	}}
	answer.Status, answer.Size = http.StatusOK, parts[0].of
	body, _ := whole.OpenRange(ctx, 0, answer.Size) // cannot fail: nothing is opened yet
	answer.Body = &joined{body, whole}
	h.Set("X-Archive-Parts", fmt.Sprint(len(parts)))
	return err
}
