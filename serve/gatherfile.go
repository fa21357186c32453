package serve

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// gatheringHead is the first line of a stored gathering.
type gatheringHead struct {
	Format  int             `json:"format"` // 1
	Form    string          `json:"form"`
	Sum     archive.Stretch `json:"sum"`
	ETag    string          `json:"etag"`
	Records int64           `json:"records"`
	Pieces  int             `json:"pieces"`
	Taken   map[string]int  `json:"taken,omitempty"`
	Scope   string          `json:"scope"`
	Version int64           `json:"version"`
	At      time.Time       `json:"at"`
}

// gatheredLine is a line of a stored gathering: what is taken of one segment.
type gatheredLine struct {
	Line  catalog.SegmentEntry `json:"line"`
	Cells []byte               `json:"cells"`
	End   int64                `json:"end"`
}

// Save writes the gathering, a JSON object a line, so that Load gives it back.
func (g *Gathering) Save(w io.Writer) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	head := gatheringHead{
		Format: 1, Form: g.form.suffix, Sum: g.sum, ETag: g.etag, Records: g.records, Pieces: len(g.pieces),
		Taken: g.taken, Scope: g.scope, Version: g.version, At: g.at,
	}
	if err := enc.Encode(head); err != nil {
		return err
	}
	for i := range g.pieces {
		p := &g.pieces[i]
		if err := enc.Encode(gatheredLine{p.line, p.cells, p.end}); err != nil {
			return err
		}
	}
	return out.Flush()
}

// LoadGathering reads what Save wrote.
func LoadGathering(r io.Reader) (*Gathering, error) {
	dec := json.NewDecoder(bufio.NewReader(r))
	var head gatheringHead
	if err := dec.Decode(&head); err != nil {
		return nil, fmt.Errorf("stored gathering: %w", err)
	}
	i := slices.IndexFunc(forms[:], func(f form) bool { return f.suffix == head.Form })
	if head.Format != 1 || i < 0 || strings.Count(head.ETag, `"`) != 2 {
		return nil, errors.New("stored gathering: its head is not one that this program wrote")
	}
	g := &Gathering{
		kind: forms[i].kind, form: forms[i], etag: head.ETag, records: head.Records,
		taken: head.Taken, scope: head.Scope, version: head.Version, at: head.At,
	}
	g.frame(head.Sum)
	for range head.Pieces {
		var l gatheredLine
		if err := dec.Decode(&l); err != nil {
			return nil, fmt.Errorf("stored gathering: %w", err)
		}
		g.pieces = append(g.pieces, gathered{l.Line, l.Cells, l.End})
	}
	return g, nil
}
