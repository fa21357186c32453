package transfers

import (
	"context"
	"fmt"
	"time"
)

// Document is the answer of GET /v1/transfers: the totals of all selected transfers, one page of
// these transfers, newest first, and the transfers under way. The next page is at ?before=<Next>.
type Document struct {
	Totals    []TotalLine    `json:"totals"`
	Transfers []TransferLine `json:"transfers"`
	Next      int64          `json:"next,omitempty"`

	// Running are the transfers under way in the process that answers, longest first.
	Running []TransferLine `json:"running"`
}

// TransferLine is a Transfer in JSON.
type TransferLine struct {
	ID        int64     `json:"id,omitempty"`
	At        time.Time `json:"at"`
	Direction string    `json:"direction"`
	Protocol  string    `json:"protocol"`
	Who       string    `json:"who"`
	Name      string    `json:"name"`
	Bytes     int64     `json:"bytes"`
	Seconds   float64   `json:"seconds"`
	Outcome   string    `json:"outcome,omitempty"` // empty: under way
	Remote    string    `json:"remote"`

	// Acknowledged and Count are as in Transfer.
	Acknowledged bool  `json:"acknowledged"`
	Count        int64 `json:"count"`
}

func linesOf(list []Transfer) []TransferLine {
	lines := make([]TransferLine, 0, len(list))
	for _, t := range list {
		lines = append(lines, TransferLine{t.ID, t.At, t.Direction, t.Protocol, t.Who, t.Name, t.Bytes, t.Took.Seconds(), t.Outcome, t.Remote, t.Acknowledged, max(t.Count, 1)})
	}
	return lines
}

// Query is the query of GET /v1/transfers.
type Query struct {
	Who       string `query:"who" doc:"only of this one"`
	Direction string `query:"direction" enum:"upload,download"`
	Since     string `query:"since" doc:"RFC 3339"`
	Before    int64  `query:"before" min:"1" doc:"where to go on: the answer before says it as next"`
	Limit     int    `query:"limit" min:"1" max:"10000" default:"100" doc:"transfers at most"`
}

// Filter returns the query as a Filter, or an error if Since is not in the form of RFC 3339.
func (q Query) Filter() (f Filter, err error) {
	f = Filter{Who: q.Who, Direction: q.Direction, Before: q.Before, Limit: q.Limit}
	if q.Since != "" {
		if f.Since, err = time.Parse(time.RFC3339, q.Since); err != nil {
			return f, fmt.Errorf("since %q is not a time like 2026-11-21T09:00:00Z", q.Since)
		}
	}
	return f, nil
}

// Document returns the answer for a filter. running may be nil.
func (l *Log) Document(ctx context.Context, f Filter, running *Running) (doc Document, err error) {
	all := f
	all.Before = 0 // the totals are the same on every page
	totals, err := l.Totals(ctx, all)
	if err != nil {
		return doc, err
	}
	list, err := l.List(ctx, f)
	if err != nil {
		return doc, err
	}
	doc = Document{Totals: append([]TotalLine{}, totals...), Transfers: linesOf(list), Running: linesOf(running.List(f))}
	if len(list) == f.Limit {
		doc.Next = list[len(list)-1].ID
	}
	return doc, nil
}
