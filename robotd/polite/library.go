package polite

import (
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Library shares rules among hosts whose robots.txt says the same: most hosts have none, or one that
// some program or hoster has written for all. Many goroutines may use one.
type Library struct{ rules *lru.Cache[string, *Robots] }

// Bounds of what the library remembers.
const (
	libraryTexts = 256
	libraryText  = 1 << 10 // bytes; longer ones are seldom alike
)

// NewLibrary returns an empty library.
func NewLibrary() *Library {
	rules, err := lru.New[string, *Robots](libraryTexts)
	if err != nil {
		panic(fmt.Sprintf("polite: %v", err)) // the size is none
	}
	return &Library{rules}
}

// Share returns the rules that were read from the same text last, or else those given, which
// were read from it now. Nobody may change either.
func (l *Library) Share(text []byte, read *Robots) *Robots {
	if len(text) > libraryText {
		return read
	}
	if known, ok := l.rules.Get(string(text)); ok {
		return known
	}
	l.rules.Add(string(text), read)
	return read
}
