package account

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Terms are the terms of use that an account's owner has accepted: which, when, and for which
// purpose. The zero value says that the owner has accepted none. An access rule can be open to
// accounts that have accepted certain terms.
type Terms struct {
	Name     string    `json:"name"`              // such as "research-2026"
	Purpose  string    `json:"purpose"`           // for which the archives may be used
	Accepted time.Time `json:"accepted,omitzero"` // when
}

// maxPurpose is the limit for a purpose, in bytes.
const maxPurpose = 1000

// check returns an ErrInvalid that says what is wrong with the terms of an account.
func (t Terms) check(name string) error {
	switch {
	case t == Terms{}:
		return nil
	case !IsName(t.Name):
		return fmt.Errorf("%w: %s: terms %.100q: want a name of 1 to 63 lower-case letters, digits, dots, hyphens or underscores", ErrInvalid, name, t.Name)
	case t.Accepted.IsZero():
		return fmt.Errorf("%w: %s: terms %s: say when they were accepted", ErrInvalid, name, t.Name)
	case strings.TrimSpace(t.Purpose) == "" || len(t.Purpose) > maxPurpose || strings.ContainsFunc(t.Purpose, unicode.IsControl):
		return fmt.Errorf("%w: %s: purpose %.100q: want one line of up to %d bytes", ErrInvalid, name, t.Purpose, maxPurpose)
	}
	return nil
}

// stored returns the terms as the database has them.
func (t Terms) stored() string {
	if t == (Terms{}) {
		return ""
	}
	t.Accepted = t.Accepted.UTC().Truncate(time.Second)
	text, _ := json.Marshal(t) // strings and a time between 0 and 9999: cannot fail
	return string(text)
}

func parseTerms(stored string) (t Terms, err error) {
	if stored != "" {
		err = json.Unmarshal([]byte(stored), &t)
	}
	return t, err
}
