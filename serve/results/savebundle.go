package results

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"sheaf/serve/library"
)

// Save writes the bundle for loadBundle, one JSON object a line: what is known of the whole, then
// its pieces.
func (b *Bundle) Save(w io.Writer) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	head := b.bundleHead
	head.Format, head.Form, head.Pieces = 1, b.form.Suffix, len(b.pieces)
	if err := enc.Encode(head); err != nil {
		return err
	}
	for i := range b.pieces {
		if err := enc.Encode(&b.pieces[i]); err != nil {
			return err
		}
	}
	return out.Flush()
}

// loadBundle reads a bundle of an archive that Save has written.
func loadBundle(r io.Reader, from *library.Library) (*Bundle, error) {
	dec := json.NewDecoder(bufio.NewReader(r))
	b := &Bundle{from: from}
	if err := dec.Decode(&b.bundleHead); err != nil {
		return nil, fmt.Errorf("stored bundle: %w", err)
	}
	form, ok := library.BundleForm(b.Form)
	if b.Format != 1 || !ok || strings.Count(b.ETag, `"`) != 2 {
		return nil, errors.New("stored bundle: its first line is not one that this program wrote")
	}
	b.form = form
	b.frame(b.Sum)
	for range b.Pieces {
		var p piece
		if err := dec.Decode(&p); err != nil {
			return nil, fmt.Errorf("stored bundle: %w", err)
		}
		b.pieces = append(b.pieces, p)
	}
	return b, nil
}
