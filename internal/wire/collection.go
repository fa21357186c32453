package wire

import (
	"fmt"
	"regexp"
)

// Collection says what a file was imported as: archives that belong together, such as those of one
// crawl of elsewhere. The zero value is none.
type Collection struct {
	Name    string `json:"name"`
	Source  string `json:"source,omitempty"`  // where it comes from, for people
	Licence string `json:"licence,omitempty"` // on which terms, for people
}

var collectionName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// ValidCollection reports whether a text can be the name of a collection.
func ValidCollection(name string) bool { return collectionName.MatchString(name) }

// CollectionForm says what the name of a collection is like.
const CollectionForm = "want 1 to 63 lower-case letters, digits, dots, hyphens or underscores"

// maxCollectionText limits source and licence, in bytes.
const maxCollectionText = 2000

// Check returns an error that names the field that is wrong. None is right.
func (c Collection) Check() error {
	switch {
	case c == Collection{}:
		return nil
	case !ValidCollection(c.Name):
		return fmt.Errorf("collection %.100q: %s", c.Name, CollectionForm)
	case len(c.Source) > maxCollectionText:
		return fmt.Errorf("source of collection %s: %d bytes, want at most %d", c.Name, len(c.Source), maxCollectionText)
	case len(c.Licence) > maxCollectionText:
		return fmt.Errorf("licence of collection %s: %d bytes, want at most %d", c.Name, len(c.Licence), maxCollectionText)
	}
	return nil
}
