package httpd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/replay"
)

// TimeMaps (RFC 7089, 5): the list of a page's versions, for programs. One of more versions than
// timeMapPage is an index of TimeMaps of a stretch of time each (5.1.1), which name one another. They are named by
// their times and not by number: what is published later or withdrawn moves no version from one to another
// between two requests.

const (
	linkFormat = "application/link-format"

	// timeMapPage is how many versions a TimeMap lists; more where they are of one second, or have come since the
	// index was read.
	timeMapPage = 5_000
)

// stretch is a TimeMap: versions that follow one another in time.
type stretch struct {
	mementos
	from, until time.Time // of the first and the last; of a page these are its name
	page        bool      // not all versions
}

func whole(all mementos) stretch {
	return stretch{mementos: all, from: all[0].Time.UTC(), until: all[len(all)-1].Time.UTC()}
}

// pages divides versions into TimeMaps; those of one second stay together.
func (m mementos) pages() []stretch {
	var pages []stretch
	for len(m) > 0 {
		n := min(timeMapPage, len(m))
		for n < len(m) && replay.Timestamp(m[n].Time) == replay.Timestamp(m[n-1].Time) {
			n++
		}
		p := whole(m[:n])
		p.page = true
		pages, m = append(pages, p), m[n:]
	}
	return pages
}

// name is what stands in a TimeMap's path before the URL.
func (p stretch) name() string {
	if !p.page {
		return ""
	}
	return replay.Timestamp(p.from) + "-" + replay.Timestamp(p.until) + "/"
}

// parseStretch reads name, of which rest is what follows; ok says that it is there. It gives whole seconds.
func parseStretch(s string) (from, until time.Time, rest string, ok bool, err error) {
	const n = len(replay.Layout)
	if len(s) < 2*n+2 || s[n] != '-' || s[2*n+1] != '/' || strings.Trim(s[:n]+s[n+1:2*n+1], "0123456789") != "" {
		return from, until, s, false, nil
	}
	from, err = replay.ParseTimestamp(s[:n])
	if err == nil {
		until, err = replay.ParseTimestamp(s[n+1 : 2*n+1])
	}
	return from, until, s[2*n+2:], true, err
}

// between gives the versions of a stretch of time, both ends included, in whole seconds.
func (m mementos) between(from, until time.Time) mementos {
	for len(m) > 0 && m[0].Time.Before(from) {
		m = m[1:]
	}
	for len(m) > 0 && !m[len(m)-1].Time.Before(until.Add(time.Second)) {
		m = m[:len(m)-1]
	}
	return m
}

// timeMap serves /timemap/link/<URL>, /timemap/json/<URL>, and their pages, /timemap/link/<timestamp>-<timestamp>/<URL>.
func (s *server) timeMap(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	form, rest, _ := strings.Cut(target(r, pathTimeMap), "/")
	if form != "link" && form != "json" {
		form, rest = "link", target(r, pathTimeMap)
	}
	from, until, rest, isPage, err := parseStretch(rest)
	if err != nil {
		return badAddress(err)
	}
	url, err := replay.ParseURL(rest)
	if err != nil {
		return badAddress(err)
	}
	all, err := s.mementos(r, a, url)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return s.noPage(w, r, a, url)
	}
	m, pages := whole(all), all.pages()
	switch {
	case isPage:
		m = stretch{all.between(from, until), from, until, true}
		if len(m.mementos) == 0 {
			return s.noPage(w, r, a, url)
		}
	case len(pages) > 1: // an index
		m.mementos = nil
	}
	if len(pages) == 1 {
		pages = nil
	}
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	out := bufio.NewWriterSize(w, 32<<10)
	if r.Method == http.MethodHead {
		out.Reset(io.Discard)
	}
	defer out.Flush()
	if form == "json" {
		h.Set("Content-Type", "application/json")
		return s.timeMapJSON(out, r, url, m, pages)
	}
	h.Set("Content-Type", linkFormat)
	s.timeMapLinks(out, r, all, url, m, pages)
	return nil
}

func (s *server) timeMapLink(r *http.Request, url, rel string, m stretch) related {
	return related{uri(s.origin(r) + pathTimeMap + "link/" + m.name() + url), fmt.Sprintf(`rel="%s"; type="%s"; from="%s"; until="%s"`, rel, linkFormat,
		m.from.Format(http.TimeFormat), m.until.Format(http.TimeFormat))}
}

// timeMapLinks writes a TimeMap in link-format, a link at a time.
func (s *server) timeMapLinks(out *bufio.Writer, r *http.Request, all mementos, url string, m stretch, pages []stretch) {
	first := true
	write := func(l related) {
		if !first {
			out.WriteString(",\n")
		}
		first = false
		fmt.Fprintf(out, "<%s>; %s", l.uri, l.attrs)
	}
	for _, l := range s.about(r, url, "self", m) {
		write(l)
	}
	for _, p := range pages {
		if p.name() != m.name() {
			write(s.timeMapLink(r, url, "timemap", p))
		}
	}
	for _, c := range m.mementos {
		write(s.mementoLink(r, c, relation(c == all[0], false, false, c == all[len(all)-1])))
	}
	out.WriteString("\n")
}

// TimeMap is the answer of /timemap/json/, in the form of the Memento aggregators: a list
// of versions, or an index of such TimeMaps. A page has the others' index too.
type TimeMap struct {
	Original string            `json:"original_uri"`
	Self     string            `json:"self"`
	TimeGate string            `json:"timegate_uri"`
	TimeMaps map[string]string `json:"timemap_uri"`
	Index    []TimeMapLine     `json:"timemap_index,omitempty"`
	Mementos *MementoList      `json:"mementos,omitempty"` // absent of an index
}

// TimeMapLine is one TimeMap of an index.
type TimeMapLine struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	URI   string    `json:"uri"`
}

// MementoList is the versions of a TimeMap, with the first and the last of them.
type MementoList struct {
	First MementoLine   `json:"first"`
	Last  MementoLine   `json:"last"`
	List  []MementoLine `json:"list"`
}

// MementoLine is one version of a page.
type MementoLine struct {
	Datetime time.Time `json:"datetime"`
	URI      string    `json:"uri"`
}

// timeMapJSON writes a TimeMap as JSON. It is written version by version: as one value it would be held in memory.
func (s *server) timeMapJSON(out *bufio.Writer, r *http.Request, url string, m stretch, pages []stretch) error {
	origin := s.origin(r)
	in := func(form string, p stretch) string { return origin + pathTimeMap + form + "/" + p.name() + url }
	head := TimeMap{Original: url, Self: in("json", m), TimeGate: origin + pathTimeGate + url,
		TimeMaps: map[string]string{"link_format": in("link", m), "json_format": in("json", m)}}
	for _, p := range pages {
		head.Index = append(head.Index, TimeMapLine{p.from.Truncate(time.Second), p.until.Truncate(time.Second), in("json", p)})
	}
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	if len(m.mementos) == 0 {
		out.Write(append(text, '\n'))
		return nil
	}
	out.Write(text[:len(text)-1])
	line := func(c *serve.Capture) []byte {
		text, _ := json.Marshal(MementoLine{c.Time.UTC().Truncate(time.Second), origin + replay.Path(c.Time, replay.Plain, c.URL)})
		return text // a string and a time of our years: that does not fail
	}
	fmt.Fprintf(out, `,"mementos":{"first":%s,"last":%s,"list":[`, line(m.mementos[0]), line(m.mementos[len(m.mementos)-1]))
	for i, c := range m.mementos {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(line(c))
	}
	_, err = io.WriteString(out, "]}}\n")
	return err
}
