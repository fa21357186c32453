package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
)

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
