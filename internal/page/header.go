package page

import (
	"net/http"
	"strings"

	"sheaf/internal/media"
)

// HeaderLinks returns the links in the header of the answer for the URL base: Link (RFC 8288) and
// Refresh, which browsers follow like the meta element.
func HeaderLinks(h http.Header, base string) []Link {
	c, err := newCollector(base, 0)
	if err != nil {
		return nil
	}
	for _, value := range h.Values("Link") {
		c.linkHeader(value)
	}
	if _, ref, ok := media.CutRefresh(h.Get("Refresh")); ok {
		c.add(ref, Link{Tag: "refresh", Text: true})
	}
	c.resolve()
	return c.page.Links
}

// linkHeader parses `<url>; rel="next"; title="a, b", <url>; …`.
func (c *collector) linkHeader(s string) {
	for {
		_, rest, ok := strings.Cut(s, "<")
		ref, rest, closed := strings.Cut(rest, ">")
		if !ok || !closed {
			return
		}
		params, after := cutParams(rest)
		s = after
		rel, anchored := "", false
		for _, p := range params {
			switch name, value, _ := strings.Cut(p, "="); strings.ToLower(strings.TrimSpace(name)) {
			case "rel":
				if rel == "" { // the first counts
					rel = wordsOf(strings.Trim(strings.TrimSpace(value), `"`))
				}
			case "anchor": // the link belongs to another resource
				anchored = true
			}
		}
		if !anchored {
			page := Link{Tag: "header", Rel: rel, Text: true, NoFollow: hasWord(rel, "nofollow")}
			c.linkElement(rel, ref, page, Link{Tag: "header", Rel: rel})
		}
	}
}

// cutParams splits parameters at semicolons, up to a comma. Within quotes neither counts.
func cutParams(s string) (params []string, rest string) {
	quoted, from := false, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ';' && !quoted:
			params = append(params, s[from:i])
			from = i + 1
		case c == ',' && !quoted:
			return append(params, s[from:i]), s[i+1:]
		}
	}
	return append(params, s[from:]), ""
}
