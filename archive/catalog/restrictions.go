package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// Restriction is a rule besides take-downs that hides or leaves out something, such as an access
// rule. The catalog does not apply restrictions. It keeps them for a database that was restored or
// begins anew.
type Restriction struct {
	Kind  string          `json:"kind"`
	Name  string          `json:"name"`            // kind and name identify the restriction
	Value json.RawMessage `json:"value,omitempty"` // empty: the restriction has ended
	At    time.Time       `json:"at"`              // set when recorded
	Seq   int64           `json:"-"`               // its sequence number, which ascends; set when read
}

// Ended reports whether the restriction is no longer in force.
func (r Restriction) Ended() bool { return len(r.Value) == 0 }

// Restrict records restrictions and ends of restrictions. Restrict skips a restriction that is on
// record with the same value, so the call may be repeated.
func (c *Catalog) Restrict(ctx context.Context, all ...Restriction) error {
	_, err := c.append(ctx, func(head *state) (*logRecord, error) {
		have, err := readRestrictions(scan(ctx, head.runs, tableRestriction))
		if err != nil {
			return nil, err
		}
		var fresh []Restriction
		for _, r := range all {
			if !r.Ended() {
				if r.Value, err = json.Marshal(r.Value); err != nil { // in the form that a row has
					return nil, err
				}
			}
			if string(r.Value) != string(have[[2]string{r.Kind, r.Name}].Value) {
				fresh = append(fresh, r)
			}
		}
		at := c.after(head)
		return c.compose(ctx, head, kindRestrict, at, func(w *runWriter) error {
			for i, r := range fresh {
				r.At = at
				if err := w.put(tableRestriction+seqKey(head.NextSeq+int64(i)), r); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("restrict: %w", err)
	}
	return nil
}

// Restrictions returns the last record of each restriction, in force or ended, in the order of
// recording.
func Restrictions(ctx context.Context, s *Snapshot) ([]Restriction, error) {
	last, err := readRestrictions(s.scan(ctx, tableRestriction, ""))
	return slices.SortedFunc(maps.Values(last), func(a, b Restriction) int { return cmp.Compare(a.Seq, b.Seq) }), err
}

// readRestrictions returns the last record of each restriction, by kind and name.
func readRestrictions(rows iter.Seq2[[]byte, error]) (map[[2]string]Restriction, error) {
	last := make(map[[2]string]Restriction)
	for r, err := range decoded(rows, restrictionOfRow) {
		if err != nil {
			return nil, fmt.Errorf("catalog: restrictions: %w", err)
		}
		last[[2]string{r.Kind, r.Name}] = r
	}
	return last, nil
}

// restrictionOfRow decodes a row of the table of restrictions and checks it.
func restrictionOfRow(row []byte) (r Restriction, err error) {
	key := string(rowKey(row))
	_, seq := fmt.Sscanf(strings.TrimPrefix(key, tableRestriction), "%d", &r.Seq)
	if err := errors.Join(seq, rowValue(row, &r)); err != nil {
		return r, err
	}
	if key != tableRestriction+seqKey(r.Seq) || r.Kind == "" || r.Name == "" {
		return r, fmt.Errorf("row %q holds the restriction %q %q: %w", key, r.Kind, r.Name, ErrCorrupt)
	}
	return r, nil
}
