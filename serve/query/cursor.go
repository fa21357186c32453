package query

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sheaf/serve"
)

// ErrExpired says that a cursor is too old to be gone on with.
var ErrExpired = errors.New("cursor has expired")

// CursorLife is for how long a cursor can be gone on with. Its place stays good for
// ever; but an answer that was walked for longer than that, while pages came and
// went, is no longer one.
const CursorLife = 7 * 24 * time.Hour

// Cursor is where a query goes on: a place in the order of records, and what
// collapsing has to know of the record before it.
type Cursor struct {
	Query  string    `json:"q"` // what it belongs to; see Query.id
	Issued int64     `json:"i"` // seconds since 1970
	Target int       `json:"t,omitempty"`
	Host   string    `json:"h,omitempty"`
	Key    string    `json:"k,omitempty"`
	Time   time.Time `json:"w,omitzero"`
	Seq    int64     `json:"s,omitempty"`
	Offset int64     `json:"o,omitempty"`
	Marks  []string  `json:"m,omitempty"` // of each collapse
	Skip   int       `json:"n,omitempty"` // records that are still to be passed over
	Until  *PageEnd  `json:"u,omitempty"` // where the page ends that it is of
}

// PageEnd is the position behind the last of a page.
type PageEnd struct {
	Host string    `json:"h,omitempty"`
	Key  string    `json:"k,omitempty"`
	Time time.Time `json:"w,omitzero"`
}

func (e *PageEnd) position() *serve.Position {
	if e == nil {
		return nil
	}
	return &serve.Position{Host: e.Host, Key: e.Key, Time: e.Time}
}

func pageEnd(p *serve.Position) *PageEnd {
	if p == nil {
		return nil
	}
	return &PageEnd{p.Host, p.Key, p.Time}
}

func (c *Cursor) String() string {
	data, err := json.Marshal(c)
	if err != nil {
		return "" // only a time far from ours cannot be written, and no record has one
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func (c *Cursor) position() *serve.Position {
	return &serve.Position{Target: c.Target, Host: c.Host, Key: c.Key, Time: c.Time, Seq: c.Seq, Offset: c.Offset}
}

// parseCursor reads what String wrote.
func parseCursor(text string) (*Cursor, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("is none that this service gave")
	}
	c := new(Cursor)
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil || d.More() || c.Target < 0 || c.Target >= MaxList || len(c.Marks) > maxCollapses || c.Skip < 0 || c.Skip > maxSkip {
		return nil, errors.New("is none that this service gave")
	}
	return c, nil
}

// check tells whether the cursor belongs to the query and may still be used.
func (c *Cursor) check(q *Query, now time.Time) error {
	switch issued := time.Unix(c.Issued, 0); {
	case c.Query != q.id() || c.Target >= len(q.Search.Targets) || len(c.Marks) != len(q.collapses):
		return &ParamError{"cursor", c.String(), "belongs to another query; give the same url, matchType, from, to, filter, collapse, latest and sort as in the request that it came from"}
	case issued.After(now.Add(time.Hour)):
		return &ParamError{"cursor", c.String(), "is from the future"}
	case now.Sub(issued) > CursorLife:
		return fmt.Errorf("%w: it is of %s and was good for %v; begin again without a cursor", ErrExpired, issued.UTC().Format(time.RFC3339), CursorLife)
	}
	return nil
}
