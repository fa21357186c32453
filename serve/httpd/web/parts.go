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

// joined reads a body from its parts. Each part is checked as it is read.
type joined struct {
	ctx  context.Context
	all  []*part
	next int   // the part that has the next byte, or one before it
	at   int64 // the next byte
	in   io.ReadCloser
}

// from returns a reader of the body from an offset on.
func (j *joined) from(off int64) *joined { return &joined{ctx: j.ctx, all: j.all, at: off} }

func (j *joined) Read(b []byte) (int, error) {
	for j.next < len(j.all) {
		p := j.all[j.next]
		if j.at >= p.first+p.size {
			if err := j.Close(); err != nil {
				return 0, err
			}
			j.next++
			continue
		}
		if j.in == nil {
			answer, err := p.Response(j.ctx)
			if err != nil {
				return 0, err
			}
			j.in = answer.Body
			if _, err := io.CopyN(io.Discard, j.in, j.at-p.first); err != nil {
				return 0, err
			}
		}
		n, err := j.in.Read(b[:min(int64(len(b)), p.first+p.size-j.at)])
		j.at += int64(n)
		switch {
		case n > 0:
			return n, nil
		case err == io.EOF:
			return 0, io.ErrUnexpectedEOF
		case err != nil:
			return 0, err
		}
	}
	return 0, io.EOF
}

func (j *joined) Close() error {
	if j.in == nil {
		return nil
	}
	in := j.in
	j.in = nil
	return in.Close()
}

// joinParts turns the answer for one part into the answer for the whole body.
func joinParts(ctx context.Context, h http.Header, answer *records.Response, parts []*part) error {
	err := answer.Body.Close()
	answer.Status, answer.Size, answer.Body = http.StatusOK, parts[0].of, &joined{ctx: ctx, all: parts}
	h.Set("X-Archive-Parts", fmt.Sprint(len(parts)))
	return err
}
