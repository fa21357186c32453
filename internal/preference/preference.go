// Package preference finds the conditions that owners of pages state for collecting and using the
// pages, and keeps them as written. It does not judge them: users of the pages decide by the text.
//
// The preferences of a response are written as a line of names and values in the order of Names,
// for example
//
//	content-usage=train-ai=n; robots=noindex, nofollow
//
// In a value, bytes other than printable ASCII, and the bytes %, ;, " and \, are written as %XX. A
// % at the end of a value says that the value was cut. The line is in the header of the WARC record
// and in the indexes.
//
// [Robots] is what a robots.txt allows a robot.
package preference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"sheaf/internal/media"
)

// Names of preferences.
const (
	ContentUsage   = "content-usage"   // of the header, or lines of a robots.txt (IETF aipref, draft-ietf-aipref-attach)
	ContentSignal  = "content-signal"  // likewise (draft-romm-aipref-contentsignals; contentsignals.org)
	RobotsTag      = "x-robots-tag"    // of the header
	RobotsMeta     = "robots"          // of the meta element
	TDMReservation = "tdm-reservation" // of the header, the meta element or tdmrep.json (W3C TDM Reservation Protocol)
	TDMPolicy      = "tdm-policy"      // likewise
	CrawlerPrice   = "crawler-price"   // of the header of an answer that asks robots to pay
	License        = "license"         // lines of a robots.txt, a Link header, or a link or script element (Really Simple Licensing 1.0)
)

// Names returns the names of all preferences, in order.
func Names() []string {
	return []string{ContentUsage, ContentSignal, RobotsTag, RobotsMeta, TDMReservation, TDMPolicy, CrawlerPrice, License}
}

// maxValue is the limit for a value in its written form, in bytes. Longer values are cut.
const maxValue = 300

// MaxLength is the limit for all preferences of a response, in bytes.
const MaxLength = 8 * (maxValue + len(TDMReservation) + len("=%; "))

// Searched is how many bytes of a page are searched for meta elements, unless its body element
// begins earlier.
const Searched = 64 << 10

// Preference is one condition, by its name and value.
type Preference struct {
	Name  string // one of Names
	Value string // as written by the owner, in any charset
	Cut   bool   // the value was longer
}

// Of returns the preferences of a page's response. page is its URL, head the status line and
// headers, body the decoded body or its beginning. Of searches the body if it is HTML, or the
// host's robots.txt or tdmrep.json. The result is empty if there are no preferences.
func Of(page string, head, body []byte) string {
	var f found
	contentType := f.header(head)
	switch {
	case IsRobotsTxt(page):
		f.robotsTxt(body)
	case ofHost(page, tdmrep):
		f.tdmrep(body)
	default:
		if essence := media.Sniff(contentType, body); media.IsHTML(essence) {
			f.page(body, media.IsXHTML(essence))
		}
	}
	return f.String()
}

// tdmrep is the path of a host's file of the TDM Reservation Protocol. Robots ask for it only where
// something leads to it: few hosts have it, and it would be one more request to every host.
const tdmrep = "/.well-known/tdmrep.json"

// IsRobotsTxt reports whether page is the URL of a host's robots.txt.
func IsRobotsTxt(page string) bool { return ofHost(page, "/robots.txt") }

// ofHost reports whether page is the URL of a host's file with this path.
func ofHost(page, path string) bool {
	rest, ok := strings.CutSuffix(page, path)
	_, host, scheme := strings.Cut(rest, "://")
	return ok && scheme && !strings.Contains(host, "/")
}

// Parse parses a result of Of, and refuses any other text.
func Parse(text string) ([]Preference, error) {
	if text == "" {
		return nil, nil
	}
	var f found
	last := -1
	for part := range strings.SplitSeq(text, "; ") {
		name, value, _ := strings.Cut(part, "=")
		at := slices.Index(Names(), name)
		if at <= last {
			return nil, fmt.Errorf("preferences %.100q: want name=value with the names %s in this order", text, strings.Join(Names(), ", "))
		}
		last = at
		value, cut := strings.CutSuffix(value, "%")
		value, err := url.PathUnescape(value)
		if err != nil {
			return nil, fmt.Errorf("preferences %.100q: %s: %w", text, name, err)
		}
		f.list = append(f.list, Preference{name, value, cut})
	}
	if f.String() != text {
		return nil, fmt.Errorf("preferences %.100q: a value is empty, has more than %d bytes, or has bytes that must be %%XX", text, maxValue)
	}
	return f.list, nil
}

// Value returns the value of one preference in a result of Of, or "" if the result lacks the
// preference.
func Value(text, name string) string {
	all, _ := Parse(text) // the indexes have been checked
	for _, p := range all {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// found collects the preferences of a response.
type found struct{ list []Preference }

// add adds a value. Several values of one name become a list, as in HTTP's headers.
func (f *found) add(name, value string) {
	value = strings.Join(strings.Fields(value), " ")
	if value == "" {
		return
	}
	i := slices.IndexFunc(f.list, func(p Preference) bool { return p.Name == name })
	if i < 0 {
		f.list = append(f.list, Preference{Name: name, Value: value})
	} else {
		f.list[i].Value += ", " + value
	}
}

// String returns the preferences as the line that Of returns.
func (f found) String() string {
	var parts []string
	for _, name := range Names() {
		i := slices.IndexFunc(f.list, func(p Preference) bool { return p.Name == name })
		if i < 0 || f.list[i].Value == "" {
			continue
		}
		value, cut := escape(f.list[i].Value)
		if cut || f.list[i].Cut {
			value += "%"
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, "; ")
}

// escape returns a value in its written form, and whether it was cut to maxValue bytes.
func escape(value string) (written string, cut bool) {
	var b strings.Builder
	for i := range len(value) {
		piece := value[i : i+1]
		if c := value[i]; c < ' ' || c > '~' || strings.IndexByte(`%;"\`, c) >= 0 {
			piece = fmt.Sprintf("%%%02X", c)
		}
		if b.Len()+len(piece) > maxValue {
			return b.String(), true
		}
		b.WriteString(piece)
	}
	return b.String(), false
}

// header adds the preferences in the header lines, and returns the Content-Type.
func (f *found) header(head []byte) string {
	var types []string
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) > len("tdm-reservation") {
			continue
		}
		switch name, value := strings.ToLower(string(name)), string(value); name {
		case ContentUsage, ContentSignal, RobotsTag, TDMReservation, TDMPolicy, CrawlerPrice:
			f.add(name, value)
		case "content-type":
			types = append(types, value)
		case "link":
			f.links(value)
		}
	}
	return strings.Join(types, ", ")
}

// rslType is the media type of a licence of Really Simple Licensing.
const rslType = "application/rsl+xml"

// links adds the licences of a Link header.
func (f *found) links(value string) {
	for value != "" {
		_, rest, _ := strings.Cut(value, "<")
		target, params, ok := strings.Cut(rest, ">")
		if !ok {
			return
		}
		params, value = untilComma(params)
		if low := strings.ToLower(params); strings.Contains(low, "license") && strings.Contains(low, rslType) {
			f.add(License, target)
		}
	}
}

// untilComma splits a text at the first comma that is not in a quoted string.
func untilComma(s string) (before, after string) {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// robotsTxt adds the lines of a robots.txt: all licences, and the usage and signals that are said
// for all robots.
func (f *found) robotsTxt(text []byte) {
	all, inAgents := true, false
	for line := range bytes.FieldsFuncSeq(media.PlainLines(text), func(c rune) bool { return c == '\n' || c == '\r' }) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		key, value, ok := strings.Cut(string(line), ":")
		if !ok {
			continue
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		switch {
		case key == "user-agent":
			all = inAgents && all || value == "*"
			inAgents = true
			continue
		case (key == ContentUsage || key == ContentSignal) && all, key == License:
			f.add(key, value)
		}
		inAgents = inAgents && key == "sitemap"
	}
}

// tdmrep adds the reservations of a tdmrep.json, each with the path that it is for, unless that is
// the whole host.
func (f *found) tdmrep(text []byte) {
	var list []struct {
		Location    string      `json:"location"`
		Reservation json.Number `json:"tdm-reservation"`
		Policy      string      `json:"tdm-policy"`
	}
	if json.Unmarshal(text, &list) != nil {
		return
	}
	for _, l := range list {
		if l.Location == "/" {
			l.Location = ""
		}
		f.add(TDMReservation, l.Location+" "+l.Reservation.String())
		if l.Policy != "" {
			f.add(TDMPolicy, l.Location+" "+l.Policy)
		}
	}
}

// page adds the preferences in the meta, link and script elements of a page, up to the page's body
// element. The page is HTML or, if xml is set, XHTML.
func (f *found) page(body []byte, xml bool) {
	body = body[:min(len(body), Searched)]
	z := media.NewTokenizer(bytes.NewReader(body), xml)
	z.SetMaxBuf(Searched)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			switch string(name) {
			case "body", "frameset":
				return
			case "meta", "link", "script":
				script := string(name) == "script"
				attrs := make(map[string]string, 4)
				for more {
					var key, value []byte
					key, value, more = z.TagAttr()
					if _, again := attrs[string(key)]; !again {
						attrs[string(key)] = string(value)
					}
				}
				if f.element(attrs); script && isRSL(attrs["type"]) && z.Next() == html.TextToken {
					f.add(License, string(z.Text()))
				}
			}
		}
	}
}

func (f *found) element(attrs map[string]string) {
	switch name := strings.ToLower(strings.TrimSpace(attrs["name"])); name {
	case RobotsMeta, TDMReservation, TDMPolicy:
		f.add(name, attrs["content"])
	}
	if strings.Contains(strings.ToLower(attrs["rel"]), "license") && isRSL(attrs["type"]) {
		f.add(License, attrs["href"])
	}
}

func isRSL(mediaType string) bool { return strings.EqualFold(strings.TrimSpace(mediaType), rslType) }

// Filter selects responses by their preferences. The zero value selects all.
type Filter struct {
	name string // empty: any
	text string // in lower case; must be in the value
	not  bool
	set  bool
}

// ParseFilter parses "name" (the response has this preference), "name:text" (its value has the
// text, in small or capital letters), "any" (the response has a preference), or one of these with
// "!" before it, which selects all other responses.
func ParseFilter(s string) (Filter, error) {
	f := Filter{set: true}
	s, f.not = strings.CutPrefix(s, "!")
	name, text, _ := strings.Cut(s, ":")
	f.name, f.text = strings.ToLower(name), strings.ToLower(text)
	if f.name == "any" && text == "" {
		f.name = ""
		return f, nil
	}
	if !slices.Contains(Names(), f.name) {
		return f, fmt.Errorf("no preference %.40q; want any or one of %s, with :text behind it or ! before it", s, strings.Join(Names(), ", "))
	}
	return f, nil
}

// Holds reports whether the filter selects a response with these preferences.
func (f Filter) Holds(text string) bool {
	switch {
	case !f.set:
		return true
	case f.name == "":
		return (text != "") != f.not
	}
	value := Value(text, f.name)
	return (value != "" && strings.Contains(strings.ToLower(value), f.text)) != f.not
}
