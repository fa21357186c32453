package polite

import (
	"crypto/sha256"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Library shares rules among hosts whose robots.txt says the same: most hosts have none, or one that
// some program or hoster has written for all, but for the line that names the sitemap. Many goroutines may use one.
type Library struct {
	rules *lru.Cache[[sha256.Size]byte, *Robots]
}

// Bounds of what the library remembers.
const (
	libraryTexts = 256
	libraryText  = 4 << 10 // bytes as they are compared; longer ones are seldom alike
)

// NewLibrary returns an empty library.
func NewLibrary() *Library {
	rules, err := lru.New[[sha256.Size]byte, *Robots](libraryTexts)
	if err != nil {
		panic(fmt.Sprintf("polite: %v", err)) // the size is none
	}
	return &Library{rules}
}

// Share returns the same rules without the sitemaps: those that were read last elsewhere, where they say
// the same. Nobody may change them.
func (l *Library) Share(read *Robots) *Robots {
	own := &Robots{groups: read.groups, hours: read.hours}
	said := fmt.Appendf(nil, "%#v %#v", own.groups, own.hours)
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
