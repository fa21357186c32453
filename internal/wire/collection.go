package wire

import (
	"fmt"
	"regexp"
)

// Collection describes archives that were imported together under one name, such as those of a
// foreign crawl. The zero value means no collection.
type Collection struct {
	Name    string `json:"name"`
	Source  string `json:"source,omitempty"`  // origin of the archives, for people
	Licence string `json:"licence,omitempty"` // terms of use, for people
}

var collectionName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// ValidCollection reports whether a text can be the name of a collection.
func ValidCollection(name string) bool { return collectionName.MatchString(name) }

// CollectionForm describes the names of collections, for error messages.
const CollectionForm = "want 1 to 63 lower-case letters, digits, dots, hyphens or underscores"

// maxCollectionText limits source and licence, in bytes.
const maxCollectionText = 2000

// Check returns an error that names the wrong field. The zero value is valid.
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
