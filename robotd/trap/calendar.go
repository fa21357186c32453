package trap

import (
	"hash/maphash"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Bounds of what is remembered of a host's calendars.
const (
	maxCalendars = 16
	maxFaces     = 8 // of the empty pages of a calendar, such as of a month, a week and a day
	maxEmpty     = 5 // successive pages that look alike, after which a calendar is left
)

// Calendars tells endless calendars from archives by date. In a calendar, a month in which nothing
// happens looks like the others except for numbers and names; in an archive it does not. The zero
// value is ready for use. It must not be used concurrently.
type Calendars struct {
	seen map[string]*calendar // by the part of the URL before the date
}

type calendar struct {
	faces []uint64 // of the last pages
	empty int      // successive pages that look like earlier ones
}

var (
	seed = maphash.MakeSeed()

	dateWords = regexp.MustCompile(`(?i)\b(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|dec(ember)?|(mon|tues?|wed(nes)?|thu(rs)?|fri|satur|sat|sun)(day)?|st|nd|rd|th)\b`)
)

// keyOf returns the name of the calendar to which a URL's path and query lead; empty: to none.
func keyOf(pathQuery string) string {
	path, query, _ := strings.Cut(pathQuery, "?")
	if d, ok := inPath(path); ok {
		return d.before
	}
	if !hasYear(query) {
		return ""
	}
	params := strings.Split(strings.ToLower(query), "&")
	month := slices.ContainsFunc(params, queryPart.MatchString)
	for _, p := range params {
		if month && queryYear.MatchString(p) || queryDate.MatchString(p) {
			return path + "?"
		}
	}
	return ""
}

// Saw takes in a page and its text. It ignores pages outside calendars.
func (c *Calendars) Saw(pathQuery, text string) {
	key := keyOf(pathQuery)
	if key == "" {
		return
	}
	if c.seen == nil {
		c.seen = make(map[string]*calendar)
	}
	k := c.seen[key]
	if k == nil {
		if len(c.seen) == maxCalendars {
			return
		}
		k = new(calendar)
		c.seen[key] = k
	}
	face := faceOf(text)
	if slices.Contains(k.faces, face) {
		k.empty++
		return
	}
	k.empty = 0
	if len(k.faces) == maxFaces {
		k.faces = k.faces[1:]
	}
	k.faces = append(k.faces, face)
}

// Endless reports whether a link leads on in a calendar whose last pages all looked alike.
func (c *Calendars) Endless(pathQuery string) bool {
	if len(c.seen) == 0 {
		return false
	}
	k := c.seen[keyOf(pathQuery)]
	return k != nil && k.empty >= maxEmpty
}

// faceOf returns a hash of a page's text without what differs between two empty pages of a
// calendar.
func faceOf(text string) uint64 {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r):
			return r
		case unicode.IsDigit(r):
			return -1
		}
		return ' '
	}, dateWords.ReplaceAllString(text, ""))
	return maphash.String(seed, strings.Join(strings.Fields(text), ""))
}
