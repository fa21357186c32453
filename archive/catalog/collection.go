package catalog

import "regexp"

var collectionForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// CollectionForm says what the name of a collection is like.
const CollectionForm = "want 1 to 63 lower-case letters, digits, dots, hyphens or underscores"

// ValidCollection reports whether a text can be the name of a collection.
func ValidCollection(name string) bool { return collectionForm.MatchString(name) }
