package records

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// maxCollapses is how many collapses a query may have.
const maxCollapses = 8

// collapse keeps only the first of successive records with the same field, or the same beginning of
// it.
type collapse struct {
	field string
	first int // number of characters to compare; 0: all
}

func parseCollapse(text string) (collapse, error) {
	name, digits, cut := strings.Cut(text, ":")
	c := collapse{field: field(name)}
	if c.field == "" {
		return c, unknownField(name)
	}
	if cut {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 || n > 10000 {
			return c, fmt.Errorf("%.20q characters: want a number from 1 to 10000", digits)
		}
		c.first = n
	}
	return c, nil
}

// pass reports whether a record's compared text differs from that of the record before. last is the
// mark of the record before, and mark this record's own: a hash of the text.
func (c collapse) pass(ctx context.Context, of *Capture, last string) (mark string, ok bool, err error) {
	text, err := value(ctx, Record{Capture: of}, c.field)
	if err != nil {
		return "", false, err
	}
	if c.first > 0 {
		chars := []rune(text)
		text = string(chars[:min(c.first, len(chars))])
	}
	sum := sha256.Sum256([]byte(text))
	mark = hex.EncodeToString(sum[:8])
	return mark, mark != last, nil
}
