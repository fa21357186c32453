package polite

import (
	"crypto/sha256"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"sheaf/internal/preference"
)

// Library shares rules among hosts whose robots.txt has the same rules. Most hosts have no
// robots.txt, or one from a common program or hosting service that differs only in the sitemap's
// line. It may be used concurrently.
type Library struct {
	rules *lru.Cache[[sha256.Size]byte, *preference.Robots]
}

// Limits of what the library stores.
const (
	libraryTexts = 256
	libraryText  = 4 << 10 // bytes in the compared form; longer rules are rarely equal
)

// NewLibrary returns an empty library.
func NewLibrary() *Library {
	rules, _ := lru.New[[sha256.Size]byte, *preference.Robots](libraryTexts) // fails only without room
	return &Library{rules}
}

// Share returns equal rules without the sitemaps. Hosts with the same rules share them, so callers
// must not change them.
func (l *Library) Share(read *preference.Robots) *preference.Robots {
	own := read.Rules()
	said := fmt.Appendf(nil, "%#v", *own)
	if len(said) > libraryText {
		return own
	}
	key := sha256.Sum256(said)
	if known, ok := l.rules.Get(key); ok {
		return known
	}
	l.rules.Add(key, own)
	return own
}
