package preference

import (
	"bytes"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sheaf/internal/media"
	"sheaf/internal/weburl"
)

// Robot is the product token by which a robots.txt names Sheaf's robots.
const Robot = "sheaf-robotd"

// MaxRobots is the part of a robots.txt that is read, in bytes (RFC 9309, 2.5).
const MaxRobots = 500 << 10

// MaxCrawlDelay is the limit for a Crawl-delay. A long delay may slow the visits to a host, but not
// prevent them.
const MaxCrawlDelay = 24 * time.Hour

// Robots is the content of a host's robots.txt. The zero value allows everything.
type Robots struct {
	Sitemaps []string // as written
	groups   []group
	hours    []hours
}

// group is successive user-agent lines with the rules below them.
type group struct {
	agents []string // product tokens in lower case; "*" means all
	rules  []rule
}

type rule struct {
	allow   bool
	pattern string // normalized, with * and a final $
}

// ParseRobots parses a robots.txt. No file is invalid: it skips lines that it does not understand,
// and ignores what exceeds MaxRobots.
func ParseRobots(text []byte) *Robots {
	long := len(text) > MaxRobots
	text = media.PlainLines(text[:min(len(text), MaxRobots)])
	if long { // the last line may be incomplete and mean something else
		text = text[:bytes.LastIndexAny(text, "\r\n")+1]
	}
	r := &Robots{}
	var current *group
	var when *hours
	inAgents, inWhen := false, false
	for line := range bytes.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == '\r' }) {
		key, value, ok := splitLine(string(line))
		if !ok {
			continue
		}
		switch key {
		case "user-agent":
			if !inAgents {
				r.groups = append(r.groups, group{})
				current = &r.groups[len(r.groups)-1]
			}
			if !inWhen {
				r.hours = append(r.hours, hours{})
				when = &r.hours[len(r.hours)-1]
			}
			inAgents, inWhen = true, true
			current.agents = append(current.agents, productToken(value))
			when.agents = append(when.agents, productToken(value))
		case "allow", "disallow":
			inAgents, inWhen = false, false
			if current != nil && value != "" {
				current.rules = append(current.rules, rule{key == "allow", normalizePattern(value)})
			}
		case "crawl-delay", "request-rate", "visit-time":
			if inWhen = false; when != nil {
				when.read(key, value)
			}
		case "sitemap":
			if value != "" {
				r.Sitemaps = append(r.Sitemaps, value)
			}
		}
	}
	r.shrink()
	return r
}

// Rules returns the content without the sitemaps.
func (r *Robots) Rules() *Robots { return &Robots{groups: r.groups, hours: r.hours} }

// shrink frees unused memory: the rules of ten thousand hosts are in memory at the same time.
func (r *Robots) shrink() {
	for i := range r.groups {
		g := &r.groups[i]
		g.agents, g.rules = slices.Clone(g.agents), slices.Clone(g.rules)
		for k := range g.rules {
			g.rules[k].pattern = strings.Clone(g.rules[k].pattern) // it may share memory with its line
		}
	}
	r.groups = slices.Clone(r.groups)
	if !slices.ContainsFunc(r.hours, func(h hours) bool { return h.delay > 0 || len(h.visits) > 0 }) {
		r.hours = nil
	}
}

func splitLine(line string) (key, value string, ok bool) {
	line, _, _ = strings.Cut(line, "#")
	key, value, ok = strings.Cut(line, ":")
	return strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value), ok
}

// productToken returns "examplebot" for "ExampleBot/1.2 (+https://…)".
func productToken(agent string) string {
	if i := strings.IndexAny(agent, "/ \t("); i > 0 {
		agent = agent[:i]
	}
	return strings.ToLower(agent)
}

func parseDelay(s string) time.Duration {
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(seconds) || seconds <= 0 {
		return 0
	}
	if seconds > MaxCrawlDelay.Seconds() {
		return MaxCrawlDelay
	}
	return time.Duration(seconds * float64(time.Second))
}

// Allowed reports whether the agent, a product token or a whole User-Agent header, may fetch a path
// with its query. The longest matching rule decides; among equally long rules, one that allows. The
// robots.txt itself is always allowed.
func (r *Robots) Allowed(agent, pathQuery string) bool {
	path := normalizePath(pathQuery)
	if path == "/robots.txt" {
		return true
	}
	longest, allowed := -1, true
	for g := range r.groupsOf(agent) {
		for _, rule := range g.rules {
			n := len(rule.pattern)
			if n < longest || n == longest && allowed || !match(rule.pattern, path) {
				continue
			}
			longest, allowed = n, rule.allow
		}
	}
	return allowed
}

// groupsOf yields the agent's groups, which count as one. If no group names the agent, it yields
// the groups for all agents.
func (r *Robots) groupsOf(agent string) iter.Seq[*group] {
	return chosen(r.groups, agent, func(g *group) []string { return g.agents })
}

// chosen yields the groups that name the agent or, if no group does, the groups for all agents.
func chosen[G any](groups []G, agent string, agents func(*G) []string) iter.Seq[*G] {
	token := productToken(agent)
	names := func(g *G) bool { return slices.Contains(agents(g), token) }
	return func(yield func(*G) bool) {
		if !slices.ContainsFunc(groups, func(g G) bool { return names(&g) }) {
			token = "*"
		}
		for i := range groups {
			if names(&groups[i]) && !yield(&groups[i]) {
				return
			}
		}
	}
}

// normalizePath returns a path in a form that compares with patterns byte by byte (RFC 9309,
// 2.2.2): percent-encoded unreserved characters are decoded, everything outside ASCII is
// percent-encoded, and the digits are in upper case. Characters that have a meaning in patterns are
// percent-encoded.
func normalizePath(path string) string {
	if path == "" {
		return "/"
	}
	return weburl.Escape(weburl.UnescapeUnreserved(path), " *$")
}

// normalizePattern returns a rule's pattern in the form of normalizePath, except that * and a final
// $ keep their meaning.
func normalizePattern(pattern string) string {
	body, anchored := strings.CutSuffix(pattern, "$")
	body = weburl.Escape(weburl.UnescapeUnreserved(body), " $")
	for strings.Contains(body, "**") {
		body = strings.ReplaceAll(body, "**", "*")
	}
	if !strings.HasPrefix(body, "/") && !strings.HasPrefix(body, "*") {
		body = "/" + body
	}
	if anchored {
		body += "$"
	}
	return body
}

// match reports whether a pattern matches the path from its start. It finds the parts between stars
// from left to right, each as early as possible. In the worst case the time is proportional to the
// product of the lengths.
func match(pattern, path string) bool {
	pattern, anchored := strings.CutSuffix(pattern, "$")
	first, rest, star := strings.Cut(pattern, "*")
	if !strings.HasPrefix(path, first) {
		return false
	}
	path = path[len(first):]
	if !star {
		return !anchored || path == ""
	}
	for {
		piece, next, more := strings.Cut(rest, "*")
		if !more && anchored {
			return strings.HasSuffix(path, piece)
		}
		i := strings.Index(path, piece)
		if i < 0 {
			return false
		}
		if !more {
			return true
		}
		path, rest = path[i+len(piece):], next
	}
}

// Tag is what a page asks of those who copy it, in a header or in <meta name=robots>.
type Tag struct{ NoIndex, NoFollow, NoArchive bool }

// ReadTag parses X-Robots-Tag headers. A value may begin with an agent's name, "otherbot: noindex,
// nofollow"; all of its words then apply only to that agent. Values without a name apply to every
// agent. The words of all values that apply are combined.
func ReadTag(values []string, agent string) (t Tag) {
	token := productToken(agent)
	for _, value := range values {
		name, rest, named := strings.Cut(strings.ToLower(value), ":")
		if name = strings.TrimSpace(name); named && !strings.ContainsAny(name, ", ") && !takesValue(name) {
			if productToken(name) != token {
				continue
			}
			value = rest
		}
		for word := range strings.SplitSeq(value, ",") {
			t.Add(strings.TrimSpace(word))
		}
	}
	return t
}

// Add adds what a word asks. It ignores words that ask for something else.
func (t *Tag) Add(word string) {
	switch strings.ToLower(word) {
	case "noindex":
		t.NoIndex = true
	case "nofollow":
		t.NoFollow = true
	case "noarchive":
		t.NoArchive = true
	case "none":
		t.NoIndex, t.NoFollow = true, true
	}
}

// takesValue reports whether a word before a colon is a rule with a value, and not an agent's name.
func takesValue(word string) bool {
	switch word {
	case "unavailable_after", "max-snippet", "max-image-preview", "max-video-preview":
		return true
	}
	return false
}
