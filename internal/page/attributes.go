package page

import (
	"slices"

	"sheaf/internal/media"
)

// attributes are a tag's attributes in the tokenizer's buffer. Only the attributes that are looked
// up become strings. The others are valid until the next token.
type attributes []attribute

type attribute struct{ key, value []byte }

// maxAttributes is how many attributes of one tag are read.
const maxAttributes = 100

// read reads the tag's attributes and reuses the memory. Of two attributes with one name the first
// counts.
func (a attributes) read(z *media.Tokenizer) attributes {
	a = a[:0]
	for more := true; more && len(a) < maxAttributes; {
		var key, value []byte
		key, value, more = z.TagAttr()
		if len(key) > 0 && a.find(string(key)) < 0 {
			a = append(a, attribute{key, value})
		}
	}
	return a
}

func (a attributes) find(key string) int {
	return slices.IndexFunc(a, func(at attribute) bool { return string(at.key) == key })
}

// lookup returns an attribute's value, and whether the tag has the attribute.
func (a attributes) lookup(key string) (string, bool) {
	if i := a.find(key); i >= 0 {
		return string(a[i].value), true
	}
	return "", false
}

// get returns an attribute's value, or "" if the tag lacks the attribute.
func (a attributes) get(key string) string {
	value, _ := a.lookup(key)
	return value
}
