package records

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sheaf/archive/urlindex"
	"sheaf/serve/library"
)

// order parses sort, and checks that the query can be answered in that order.
func (p *parser) order() {
	q := p.query
	p.get("sort", func(text string) error {
		switch text {
		case "default":
		case "reverse":
			q.Search.Reverse = true
			return q.oneSite()
		case "closest":
			if q.closest.IsZero() {
				return errors.New("needs closest, a time")
			}
		default:
			return errors.New("want default, reverse or closest")
		}
		return nil
	})
	p.refuse("closest", !q.oneURL(), "works for one URL only")
	p.refuse("closest", q.latest || q.Search.Reverse || len(q.collapses) > 0, "cannot be combined with latest, collapse and sort=reverse")
	p.refuse("closest", q.readsRecords(), costly)
	p.refuse("latest", q.latest && q.Search.Reverse, "cannot be combined with sort=reverse")
}

// oneURL reports whether the query is for one URL.
func (q *Query) oneURL() bool {
	return len(q.Search.Targets) == 1 && q.Search.Targets[0].Match == library.MatchExact
}

// oneSite returns an error unless the query is for one URL, prefix or host.
func (q *Query) oneSite() error {
	if len(q.Search.Targets) == 1 {
		switch q.Search.Targets[0].Match {
		case library.MatchExact, library.MatchPrefix, library.MatchHost:
			return nil
		}
	}
	return errors.New("works for one URL, prefix or host only")
}

func (p *parser) limit() {
	q := p.query
	fast := false
	p.flag("fastLatest", &fast)
	p.get("limit", func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n == 0 || n > MaxLimit || n < -MaxLimit {
			return fmt.Errorf("want a number from 1 to %d, or a negative one for the last lines", MaxLimit)
		}
		if q.Limit = max(n, -n); n < 0 {
			return q.lastLines()
		}
		return nil
	})
	if fast && !q.last {
		p.get("fastLatest", func(string) error { return q.lastLines() })
		q.Limit = max(q.Limit, 1)
	}
	set(p, "offset", &q.skip, number(0, maxSkip, fmt.Sprintf("want a number from 0 to %d; use a cursor to go further", maxSkip)))
}

// costly refuses queries that look at all records of a site before they answer, if each of the
// records would have to be read: such an answer has no parts, so nothing bounds its cost.
const costly = "cannot be combined with conditions on modified, for which each record is read"

// maxSkip is the limit for offset, since skipped records must be searched, too.
const maxSkip = 10_000_000

// lastLines makes the query return the last lines, by searching in reverse.
func (q *Query) lastLines() error {
	if q.Search.Reverse || q.latest || !q.closest.IsZero() || len(q.collapses) > 0 {
		return errors.New("the last lines cannot be combined with sort, latest, collapse and closest")
	}
	if q.readsRecords() {
		return errors.New(costly)
	}
	q.last, q.Search.Reverse = true, true
	return q.oneSite()
}

// Position is a record's place in the order of a search. It depends on nothing else in the search,
// and stays what it is whatever is published.
type Position struct {
	Target            int    `json:"t,omitempty"` // index in Search.Targets
	Host              string `json:"h,omitempty"` // catalog.Key of the host; "" if the target is one site
	urlindex.Position        // within the site or host
}

// keyRange is one URL key, or all that begin with it.
type keyRange struct {
	key   string
	exact bool
}

func (k keyRange) holds(key string) bool {
	if k.exact {
		return key == k.key
	}
	return strings.HasPrefix(key, k.key)
}

// rows returns the range of the URL index that has these keys, behind after if that is set.
func (k keyRange) rows(after *urlindex.Position, reverse bool) urlindex.Range {
	in := urlindex.Prefix(k.key)
	if k.exact {
		in = urlindex.Exact(k.key)
	}
	in.Reverse, in.After = reverse, after
	return in
}

// keysOf returns the URL keys that a target selects on each of its hosts.
func keysOf(t library.Target) keyRange {
	return keyRange{t.KeyPrefix(), t.Match == library.MatchExact}
}

// siteKeys returns the range of all URL keys of a host and its namesakes.
func siteKeys(host string) keyRange { return keyRange{key: library.SiteKey(host)} }

// ErrCursorExpired says that a cursor is too old to continue.
var ErrCursorExpired = errors.New("cursor has expired")

// CursorLife is how long a query can be continued. The position of a cursor remains valid, but an
// answer that takes longer, while records come and go, would not be consistent.
const CursorLife = 7 * 24 * time.Hour

// Cursor is where to continue a query: a position in the order of records, and the collapses'
// state.
type Cursor struct {
	Query  string `json:"q"` // identifies the query; see Query.id
	Issued int64  `json:"i"` // seconds since 1970
	Position
	Marks []string  `json:"m,omitempty"` // of each collapse
	Skip  int       `json:"n,omitempty"` // records still to be skipped
	Until *Position `json:"u,omitempty"` // end of the page that the cursor is within
}

func (c *Cursor) String() string {
	data, err := json.Marshal(c)
	if err != nil {
		return "" // cannot happen for the times of records
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// parseCursor parses the result of String.
func parseCursor(text string) (*Cursor, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("is not a cursor of this service")
	}
	c := new(Cursor)
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil || d.More() || c.Target < 0 || c.Target >= MaxTargets || len(c.Marks) > maxCollapses || c.Skip < 0 || c.Skip > maxSkip {
		return nil, errors.New("is not a cursor of this service")
	}
	return c, nil
}

// check returns an error if the cursor belongs to another query or has expired.
func (c *Cursor) check(q *Query, now time.Time) error {
	switch issued := time.Unix(c.Issued, 0); {
	case c.Query != q.id() || c.Target >= len(q.Search.Targets) || len(c.Marks) != len(q.collapses):
		return &ParamError{"cursor", c.String(), "belongs to another query; give the same url, matchType, from, to, filter, collapse, latest and sort as in the request that it came from"}
	case issued.After(now.Add(time.Hour)):
		return &ParamError{"cursor", c.String(), "is from the future"}
	case now.Sub(issued) > CursorLife:
		return fmt.Errorf("%w: it is of %s and was valid for %v; begin again without a cursor", ErrCursorExpired, issued.UTC().Format(time.RFC3339), CursorLife)
	}
	return nil
}
