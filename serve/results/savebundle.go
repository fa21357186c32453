package results

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/library"
)

// storedHead is the first line of a stored bundle.
type storedHead struct {
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

// storedPiece is any other line: a piece of the bundle.
type storedPiece struct {
	Segment catalog.SegmentEntry `json:"line"`
	Cells   []byte               `json:"cells"`
	End     int64                `json:"end"`
}

// Save writes the bundle for LoadBundle, one JSON object a line.
func (b *Bundle) Save(w io.Writer) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	head := storedHead{
		Format: 1, Form: b.form.Suffix, Sum: b.sum, ETag: b.etag, Records: b.records, Pieces: len(b.pieces),
		Taken: b.taken, Scope: b.scope, Version: b.version, At: b.at,
	}
	if err := enc.Encode(head); err != nil {
		return err
	}
	for i := range b.pieces {
		p := &b.pieces[i]
		if err := enc.Encode(storedPiece{p.segment, p.cells, p.end}); err != nil {
			return err
		}
	}
	return out.Flush()
}

// LoadBundle reads what Save wrote.
func LoadBundle(r io.Reader) (*Bundle, error) {
	dec := json.NewDecoder(bufio.NewReader(r))
	var head storedHead
	if err := dec.Decode(&head); err != nil {
		return nil, fmt.Errorf("stored bundle: %w", err)
	}
	form, ok := library.BundleForm(head.Form)
	if head.Format != 1 || !ok || strings.Count(head.ETag, `"`) != 2 {
		return nil, errors.New("stored bundle: its first line is not one that this program wrote")
	}
	b := &Bundle{
		form: form, etag: head.ETag, records: head.Records,
		taken: head.Taken, scope: head.Scope, version: head.Version, at: head.At,
	}
	b.frame(head.Sum)
	for range head.Pieces {
		var p storedPiece
		if err := dec.Decode(&p); err != nil {
			return nil, fmt.Errorf("stored bundle: %w", err)
		}
		b.pieces = append(b.pieces, piece{p.Segment, p.Cells, p.End})
	}
	return b, nil
}
