package records

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

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
