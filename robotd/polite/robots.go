// Package polite keeps the robot welcome: it reads robots.txt by RFC 9309, and
// it decides when an address may be visited again.
//
// A Gate is the only way to a visit. It is a heap of addresses keyed by the time
// at which each is next allowed; an address leaves the heap when it is handed
// out and comes back when the visit is done, so that two connections to one
// address cannot happen, whatever the callers do.
package polite

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxRobots is how much of a robots.txt is read, in bytes (RFC 9309, 2.5).
const MaxRobots = 500 << 10

// MaxCrawlDelay caps what a Crawl-delay line may ask for. A long delay slows a
// host, and never loses it.
const MaxCrawlDelay = 24 * time.Hour

// Robots is one host's robots.txt. The zero value allows everything.
type Robots struct {
	Sitemaps []string // as written
	groups   []group
}

// group is a run of user-agent lines with the rules below them.
type group struct {
	agents []string // product tokens in lower case; "*" for all
	rules  []rule
	delay  time.Duration
	visits []span // of the day, in UTC; empty: all day
}

// span is a part of the day, both ends included as in "0600-0845"; it may cross midnight.
type span struct{ from, to time.Duration }

type rule struct {
	allow   bool
	pattern string // normalised, with * and a closing $
}

// Parse reads a robots.txt. There is no wrong one: lines that say nothing are
// passed over, and what lies beyond MaxRobots is not read.
func Parse(text []byte) *Robots {
	if len(text) > MaxRobots {
		text = text[:MaxRobots]
		// A rule cut in two could say something else.
		text = text[:bytes.LastIndexAny(text, "\r\n")+1]
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	r := &Robots{}
	var current *group
	inAgents := false
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
			inAgents = true
			current.agents = append(current.agents, productToken(value))
		case "allow", "disallow":
			inAgents = false
			if current != nil && value != "" {
				current.rules = append(current.rules, rule{key == "allow", normalizePattern(value)})
			}
		case "crawl-delay":
			if current != nil { // not one of RFC 9309's rules: it ends no run of user-agent lines
				current.delay = max(current.delay, parseDelay(value))
			}
		case "request-rate":
			if current != nil {
				current.delay = max(current.delay, parseRate(value))
			}
		case "visit-time":
			if sp, ok := parseSpan(value); ok && current != nil {
				current.visits = append(current.visits, sp)
			}
		case "sitemap":
			if value != "" {
				r.Sitemaps = append(r.Sitemaps, value)
			}
		}
	}
	return r
}

func splitLine(line string) (key, value string, ok bool) {
	line, _, _ = strings.Cut(line, "#")
	key, value, ok = strings.Cut(line, ":")
	return strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value), ok
}

// productToken reduces "ExampleBot/1.2 (+https://…)" to "examplebot".
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

// Allowed reports whether the agent, a product token or a whole User-Agent
// header, may fetch a path with its query. The longest rule that matches
// decides; of two equally long ones the one that allows.
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

// CrawlDelay returns the time that the agent's group asks to lie between two
// visits; zero when it asks for none.
func (r *Robots) CrawlDelay(agent string) time.Duration {
	var delay time.Duration
	for g := range r.groupsOf(agent) {
		delay = max(delay, g.delay)
	}
	return delay
}

// groupsOf yields the groups for the agent, which count as one, or, when none
// names it, those for all.
func (r *Robots) groupsOf(agent string) func(yield func(*group) bool) {
	token := productToken(agent)
	if !r.names(token) {
		token = "*"
	}
	return func(yield func(*group) bool) {
		for i := range r.groups {
			if r.groups[i].names(token) && !yield(&r.groups[i]) {
				return
			}
		}
	}
}

func (r *Robots) names(token string) bool {
	for i := range r.groups {
		if r.groups[i].names(token) {
			return true
		}
	}
	return false
}

func (g *group) names(token string) bool {
	for _, a := range g.agents {
		if a == token {
			return true
		}
	}
	return false
}
