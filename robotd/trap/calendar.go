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
	maxFaces     = 8 // of one calendar's empty pages: a month's, a week's, a day's
	maxEmpty     = 5 // pages in a row that look alike, after which a calendar is left
)

// Calendars tells calendars that go on without end from archives by date. A month in which nothing
// happens looks like the other ones, but for its numbers and names; a month of an archive does not. The
// zero value has seen nothing. It is not safe for use by several goroutines at once.
type Calendars struct {
	seen map[string]*calendar // by what stands before the date
}

type calendar struct {
	faces []uint64 // of pages, the last ones
	empty int      // pages in a row that look like others
}

var (
	seed = maphash.MakeSeed()

	dateWords = regexp.MustCompile(`(?i)\b(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|dec(ember)?|(mon|tues?|wed(nes)?|thu(rs)?|fri|satur|sat|sun)(day)?|st|nd|rd|th)\b`)
)

// keyOf names the calendar that a URL's path and query lead into; "" is none.
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

// Saw notes a page and its text. Pages that are not a calendar's are passed over.
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

// Endless reports whether a link goes on in a calendar whose last pages all looked alike.
func (c *Calendars) Endless(pathQuery string) bool {
	if len(c.seen) == 0 {
		return false
	}
	k := c.seen[keyOf(pathQuery)]
	return k != nil && k.empty >= maxEmpty
}

// faceOf is a page's text without what two empty pages of a calendar differ in.
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
