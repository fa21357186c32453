package page

import (
	"hash/maphash"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"sheaf/internal/weburl"
)

// Bounds of what is remembered of a host's calendars.
const (
	maxCalendars = 16
	maxFaces     = 16 // different pages of a calendar, such as an empty week, an empty day and months with a picture each
	maxEmpty     = 5  // successive pages like earlier ones, after which a calendar counts as endless
)

// Calendars tells endless calendars from archives by date. In a calendar, a month in which nothing
// happens looks like the others except for numbers and names; in an archive it has other text,
// pictures or links. Links on a calendar's first pages are followed in any case, since the pages
// behind them may have more: a month that only lists its days looks like any other month. The zero
// value is ready for use. It must not be used concurrently.
type Calendars struct {
	seen map[string]*calendar // by the part of the URL before the date
}

type calendar struct {
	faces []uint64 // of the last pages
	empty int      // successive pages that look like earlier ones
	depth int      // of the last page that looked new, in links from a seed
}

var (
	seed = maphash.MakeSeed()

	digits    = regexp.MustCompile(`\d+`)
	dateWords = regexp.MustCompile(`(?i)\b(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|dec(ember)?|(mon|tues?|wed(nes)?|thu(rs)?|fri|satur|sat|sun)(day)?|st|nd|rd|th)\b`)
)

// keyOf returns the name of the calendar to which a URL's path and query lead, or "" if they lead
// to no calendar.
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

// Saw records a page that is depth links away from a seed. It ignores pages outside calendars.
func (c *Calendars) Saw(pathQuery string, depth int, p *Page) {
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
	face := faceOf(pathQuery, p)
	if slices.Contains(k.faces, face) {
		k.empty++
		return
	}
	k.empty, k.depth = 0, depth
	if len(k.faces) == maxFaces {
		k.faces = k.faces[1:]
	}
	k.faces = append(k.faces, face)
}

// Endless reports whether a link leads deeper into a calendar whose last pages all looked like
// earlier ones. depth is the depth of the link's target.
func (c *Calendars) Endless(pathQuery string, depth int) bool {
	if len(c.seen) == 0 {
		return false
	}
	k := c.seen[keyOf(pathQuery)]
	return k != nil && k.empty >= maxEmpty && depth > k.depth+1
}

// faceOf returns a hash of a page's title, text and links. It leaves out the dates and numbers in
// which two empty pages of a calendar differ.
func faceOf(pathQuery string, p *Page) uint64 {
	text := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r):
			return r
		case unicode.IsDigit(r):
			return -1
		}
		return ' '
	}, dateWords.ReplaceAllString(p.Title+" "+p.Text, ""))
	own := make(map[string]bool) // the numbers of the page's own URL
	for _, n := range digits.FindAllString(pathQuery, -1) {
		own[strings.TrimLeft(n, "0")] = true
	}
	var links []string
	for _, l := range p.Links {
		links = append(links, undated(own, l))
	}
	slices.Sort(links)
	links = append(slices.Compact(links), strings.Join(strings.Fields(text), ""))
	return maphash.String(seed, strings.Join(links, "\n"))
}

// undated returns a link's URL without its numbers if it leads into a calendar, otherwise without
// the numbers of its page's own URL. It keeps a picture's URL, since each day may have another
// picture.
func undated(own map[string]bool, l Link) string {
	switch {
	case !l.Text:
		return l.URL
	case keyOf(weburl.PathQuery(l.URL)) != "":
		return digits.ReplaceAllString(l.URL, "")
	}
	return digits.ReplaceAllStringFunc(l.URL, func(n string) string {
		if own[strings.TrimLeft(n, "0")] {
			return ""
		}
		return n
	})
}
