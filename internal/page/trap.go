package page

import (
	"hash/maphash"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/weburl"
)

// Bounds of the URLs that a person would have made.
const (
	maxRepeats    = 3  // successive repetitions of one to four segments of a path
	maxSame       = 6  // equal segments anywhere in a path
	maxParameters = 20 // of a query
	maxSameName   = 8  // parameters of one name
	yearsAhead    = 3  // of a calendar
)

var (
	pathDate  = regexp.MustCompile(`/(\d{4})[/-](\d{1,2})(?:[/-](\d{1,2}))?(/|-|\.|$)`)
	queryYear = regexp.MustCompile(`^(y|yr|year|nen)=(\d{4})$`)
	queryDate = regexp.MustCompile(`^[a-z_]*(?:date|day|month|cal)[a-z_]*=(\d{4})-\d{1,2}`)
	queryPart = regexp.MustCompile(`^(?:m|mo|mon|month|gatsu|tsuki)=\d{1,2}$`)
)

// Reasons why a link is not followed.
const (
	Calendar = "calendar"     // it goes on in an endless calendar
	Repeats  = "path_repeats" // its path goes in circles
)

// Trap returns why a URL's path and query look endless, or "" if they do not.
func Trap(pathQuery string, now time.Time) (why string) {
	path, query, _ := strings.Cut(pathQuery, "?")
	switch {
	case strings.Count(path, "/") >= maxRepeats && repeats(strings.Split(strings.Trim(path, "/"), "/")):
		return Repeats
	case endlessCalendar(path, query, now):
		return Calendar
	case pilesUp(query):
		return "parameters"
	}
	return ""
}

// repeats reports whether a path goes in circles. Relative links do that if a server shows the same
// page under every path. Numbers may repeat: they are coordinates, versions or choices.
func repeats(segments []string) bool {
	same := make(map[string]int, len(segments))
	for _, s := range segments {
		if isNumber(s) {
			continue
		}
		if same[s]++; same[s] > maxSame {
			return true
		}
	}
	for width := 1; width <= 4; width++ {
		run := 0 // successive segments that equal the one a width before
		for i := width; i < len(segments); i++ {
			if segments[i] != segments[i-width] || segments[i] == "" {
				run = 0
			} else if run++; run >= maxRepeats*width && !allNumbers(segments[i-width+1:i+1]) {
				return true
			}
		}
	}
	return false
}

// Circles finds paths that relative links make longer without end. The server shows the same page
// under every path, so each further segment at least doubles the number of paths. The segments of a
// path may come in any order. The zero value is ready for use. It must not be used concurrently.
type Circles struct {
	seen  map[string]bool    // directories in whose paths segments come again
	below map[uint64]leading // by the hash of a directory
	alike int                // links from directories that link to the same names as the two above them
	ended string             // directory of the page last seen, if what lies below is endless
}

// leading says to which directories right below it the first page of a directory links.
type leading struct {
	names uint64 // hash of those directories' names
	same  int    // directories one above another, with this one, whose pages link to the same names
}

// Bounds for a host. Pages at two levels that link to the same names may be an index by letter or
// by language. The same names at three or more levels are a circle, but only after maxAlike such
// links.
const (
	maxCircles = 100  // directories in which several segments come again
	maxAlike   = 100  // links from directories that link to the same names as the two above them
	maxLeading = 1000 // directories that are remembered
)

// Saw records the page of a URL. Call it before Endless is asked about the page's links. A
// directory repeats the one above only if both pages link to the same names below, and the upper
// page links towards this one. That is so where a server shows the same page under every path, but
// not where each directory only has its pictures beside it.
func (c *Circles) Saw(url string, p *Page) {
	c.ended = ""
	path := weburl.PathQuery(url)
	dir := directory(path)
	names, hash := namesBelow(strings.TrimSuffix(url, path)+dir, p)
	this := leading{names: hash, same: 1}
	before, known := c.below[hashOf(dir)]
	if len(names) == 0 || known && before.same > 2 || !known && len(c.below) == maxLeading {
		return
	}
	for above := dir; above != "/"; {
		above = directory(above[:len(above)-1])
		if at, ok := c.below[hashOf(above)]; ok {
			if next, _, _ := strings.Cut(dir[len(above):], "/"); at.names == hash && names[next] {
				this.same += at.same
			}
			break
		}
	}
	if this.same > 2 {
		if c.alike >= maxAlike {
			c.ended = dir
			return
		}
		if !known {
			c.alike += len(names)
		}
	}
	if c.below == nil {
		c.below = make(map[uint64]leading)
	}
	if !known {
		c.below[hashOf(dir)] = this
	}
}

// namesBelow returns the names of the directories right below a URL, if a page links into them,
// except numbers. hash is a hash of the names, whatever their order.
func namesBelow(url string, p *Page) (names map[string]bool, hash uint64) {
	names = make(map[string]bool)
	for _, l := range p.Links {
		rest, ok := strings.CutPrefix(l.URL, url)
		path, _, _ := strings.Cut(rest, "?")
		if name, _, deeper := strings.Cut(path, "/"); ok && deeper && !names[name] && !isNumber(name) {
			names[name] = true
			hash += hashOf(name)
		}
	}
	return names, hash
}

func hashOf(text string) uint64 { return maphash.String(seed, text) }

// Endless reports whether a link of the page last seen leads deeper into a circle. A directory
// below the page's own counts if both repeat segments. So a real tree in which a name comes twice
// is not a circle. Once maxCircles directories have counted, every further one is endless.
func (c *Circles) Endless(page, link string) bool {
	from, to := directory(page), directory(link)
	switch {
	case len(to) <= len(from) || !strings.HasPrefix(to, from) || c.seen[to]:
		return false
	case from == c.ended:
		return true
	case again(to) < 2 || again(from) < 1:
		return false
	case len(c.seen) == maxCircles:
		return true
	}
	if c.seen == nil {
		c.seen = make(map[string]bool)
	}
	c.seen[to] = true
	return false
}

// directory returns the path up to its last slash.
func directory(pathQuery string) string {
	path, _, _ := strings.Cut(pathQuery, "?")
	return path[:strings.LastIndexByte(path, '/')+1]
}

// again counts the segments of a path that equal an earlier one, except for numbers.
func again(path string) (n int) {
	met := make(map[string]bool)
	for s := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if met[s] && !isNumber(s) {
			n++
		}
		met[s] = true
	}
	return n
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func allNumbers(segments []string) bool {
	return !slices.ContainsFunc(segments, func(s string) bool { return !isNumber(s) })
}

// endlessCalendar reports whether a URL names a month too far ahead for a page. Any past year may
// have a page; Calendars ends a walk back into the past.
func endlessCalendar(path, query string, now time.Time) bool {
	if d, ok := inPath(path); ok && ahead(d.year, now) && d.year < now.Year()+200 { // larger numbers are no years
		return true
	}
	if !hasYear(query) {
		return false
	}
	params := strings.Split(strings.ToLower(query), "&")
	month := slices.ContainsFunc(params, queryPart.MatchString)
	for _, p := range params {
		if m := queryYear.FindStringSubmatch(p); m != nil {
			if year, _ := strconv.Atoi(m[2]); month && ahead(year, now) {
				return true
			}
		} else if m := queryDate.FindStringSubmatch(p); m != nil {
			if year, _ := strconv.Atoi(m[1]); ahead(year, now) {
				return true
			}
		}
	}
	return false
}

func ahead(year int, now time.Time) bool { return year > now.Year()+yearsAhead }

// date is the year of a date in a path, and the path before the date.
type date struct {
	before string
	year   int
}

// inPath finds a date in a path. After another number, or in the path of an image, the digits are
// no date but the column and row of a map tile.
func inPath(path string) (d date, ok bool) {
	if !hasYear(path) {
		return d, false
	}
	at := pathDate.FindStringSubmatchIndex(path)
	if at == nil {
		return d, false
	}
	d.before = path[:at[0]]
	d.year, _ = strconv.Atoi(path[at[2]:at[3]])
	month, _ := strconv.Atoi(path[at[4]:at[5]])
	if month < 1 || month > 12 || isNumber(d.before[strings.LastIndexByte(d.before, '/')+1:]) {
		return d, false
	}
	for _, end := range []string{".png", ".jpg", ".jpeg", ".gif", ".webp"} {
		if strings.HasSuffix(strings.ToLower(path), end) {
			return d, false
		}
	}
	return d, true
}

// hasYear reports whether there are four digits in a row. Most links have no such digits, and so
// need no regular expression.
func hasYear(text string) bool {
	run := 0
	for i := range len(text) {
		if c := text[i]; c < '0' || c > '9' {
			run = 0
		} else if run++; run == 4 {
			return true
		}
	}
	return false
}

// pilesUp reports whether a query seems to have grown from link to link: it has too many
// parameters, in all or of one name.
func pilesUp(query string) bool {
	if query == "" {
		return false
	}
	names := make(map[string]int)
	n := 0
	for p := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(p, "=")
		names[name]++
		if n++; n > maxParameters || names[name] > maxSameName {
			return true
		}
	}
	return false
}
