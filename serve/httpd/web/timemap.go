package web

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/serve/account"
	"sheaf/serve/httpd/guard"
	"sheaf/serve/records"
	"sheaf/serve/replay"
)

// A TimeMap (RFC 7089, 5) is the list of a page's versions, for programs. If there are more than
// timeMapPage, the list is divided into TimeMaps of one stretch of time each, and the TimeMap of
// the page is an index of these (5.1.1). These are named by their times, not by numbers. So no
// version moves between them if other versions are published or withdrawn between two requests.

const (
	linkFormat = "application/link-format"

	// timeMapPage is how many versions a TimeMap lists. There may be more if they are of one
	// second, or have come since the client read the index.
	timeMapPage = 5_000
)

// stretch is a TimeMap: consecutive versions.
type stretch struct {
	mementos
	from, until time.Time // of the first and the last version; in the name, if page is set
	page        bool      // these are not all versions

	// others are the listed records that are no versions. They are listed by paths of their own.
	others map[*records.Capture]bool
}

// path returns the path of a record that is listed.
func (p stretch) path(c *records.Capture) string {
	if p.others[c] {
		return replay.RecordPath(c.Time, c.ID(), replay.Plain, c.URL)
	}
	return path(c)
}

// othersAmong returns the records that are no versions of their page.
func othersAmong(of mementos) map[*records.Capture]bool {
	others := make(map[*records.Capture]bool)
	for _, c := range of {
		others[c] = true
	}
	for _, c := range versionsAmong(of) {
		delete(others, c)
	}
	return others
}

func whole(all mementos) stretch {
	return stretch{mementos: all, from: all[0].Time.UTC(), until: all[len(all)-1].Time.UTC()}
}

// pages divides versions into TimeMaps. Versions of one second stay together.
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

// name returns the times in the path of a TimeMap's page; of the whole TimeMap, nothing.
func (p stretch) name() string {
	if !p.page {
		return ""
	}
	return replay.Timestamp(p.from) + "-" + replay.Timestamp(p.until) + "/"
}

// parseStretch parses a name at the beginning of s; rest is what follows. If s has no name, ok is
// false. The times are whole seconds.
func parseStretch(s string) (from, until time.Time, rest string, ok bool, err error) {
	const n = len(replay.Layout)
	if len(s) < 2*n+2 || s[n] != '-' || s[2*n+1] != '/' || strings.Trim(s[:n]+s[n+1:2*n+1], "0123456789") != "" {
		return from, until, s, false, nil
	}
	first, err1 := replay.ParsePeriod(s[:n], nil)
	last, err2 := replay.ParsePeriod(s[n+1:2*n+1], nil)
	return first.Time, last.Time, s[2*n+2:], true, cmp.Or(err1, err2)
}

// between returns the versions from one second to another, both inclusive.
func (m mementos) between(from, until time.Time) mementos {
	before := func(c *records.Capture, t time.Time) int {
		if c.Time.Before(t) {
			return -1
		}
		return 1
	}
	first, _ := slices.BinarySearchFunc(m, from, before)
	end, _ := slices.BinarySearchFunc(m, until.Add(time.Second), before)
	return m[first:max(first, end)]
}

// timeMap serves /timemap/link/<URL>, /timemap/json/<URL> and the parts of an index,
// /timemap/link/<timestamp>-<timestamp>/<URL>.
func (p *Pages) timeMap(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	form, rest, _ := strings.Cut(target(r, api.PathTimeMap), "/")
	if form != "link" && form != "json" {
		form, rest = "link", target(r, api.PathTimeMap)
	}
	from, until, rest, isPage, err := parseStretch(rest)
	if err != nil {
		return err
	}
	url, err := replay.ParseURL(rest)
	if err != nil {
		return err
	}
	all, err := p.recordsOf(r.Context(), a, url)
	if err == nil && len(all) == 0 {
		err = p.missing(w, r, a, url)
	}
	if len(all) == 0 {
		return err
	}
	m, pages := whole(all), all.pages()
	switch {
	case isPage:
		m = stretch{mementos: all.between(from, until), from: from, until: until, page: true}
		if len(m.mementos) == 0 {
			return p.missing(w, r, a, url)
		}
	case len(pages) > 1: // an index
		m.mementos = nil
	}
	if len(pages) == 1 {
		pages = nil
	}
	m.others = othersAmong(all)
	body := p.Limits.Spool(r, a, false)
	defer body.Close()
	out, media := bufio.NewWriterSize(body, 32<<10), linkFormat
	if form == "json" {
		media = "application/json"
		err = writeJSON(out, p.origin(r), url, m, pages)
	} else {
		writeLinks(out, p.origin(r), all, url, m, pages)
	}
	if err = cmp.Or(err, out.Flush()); err != nil {
		return err
	}
	body.Send(w, r, media)
	return nil
}

func timeMapPath(origin, form, url string, m stretch) string {
	return origin + api.PathTimeMap + form + "/" + m.name() + replay.InPath(url)
}

func timeMapLink(origin, url, rel string, m stretch) related {
	return related{timeMapPath(origin, "link", url, m), fmt.Sprintf(`rel="%s"; type="%s"; from="%s"; until="%s"`, rel, linkFormat,
		m.from.Format(http.TimeFormat), m.until.Format(http.TimeFormat))}
}

// writeLinks writes a TimeMap in link-format (RFC 6690), one link at a time.
func writeLinks(out *bufio.Writer, origin string, all mementos, url string, m stretch, pages []stretch) {
	for i, l := range about(origin, url, "self", m) {
		if i > 0 {
			out.WriteString(",\n")
		}
		out.WriteString(l.String())
	}
	for _, page := range pages {
		if page.name() != m.name() {
			fmt.Fprint(out, ",\n", timeMapLink(origin, url, "timemap", page))
		}
	}
	for _, c := range m.mementos {
		fmt.Fprint(out, ",\n", mementoLink(origin+m.path(c), c, relation(c == all[0], false, false, c == all[len(all)-1])))
	}
	out.WriteString("\n")
}

// writeJSON writes an api.TimeMap, one version at a time: as one value it would be held in memory.
func writeJSON(out *bufio.Writer, origin, url string, m stretch, pages []stretch) error {
	head := api.TimeMap{Original: url, Self: timeMapPath(origin, "json", url, m), TimeGate: origin + api.PathTimeGate + replay.InPath(url),
		TimeMaps: map[string]string{"link_format": timeMapPath(origin, "link", url, m), "json_format": timeMapPath(origin, "json", url, m)}}
	for _, page := range pages {
		head.Index = append(head.Index, api.TimeMapLine{From: page.from.Truncate(time.Second), Until: page.until.Truncate(time.Second),
			URI: timeMapPath(origin, "json", url, page)})
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
	line := func(c *records.Capture) []byte {
		text, _ := json.Marshal(api.MementoLine{Datetime: c.Time.UTC().Truncate(time.Second), URI: origin + m.path(c)})
		return text // Marshal cannot fail: a string and a time before the year 10000
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

// timeGate redirects to the version nearest to Accept-Datetime. Without that header it redirects to
// the newest (RFC 7089, 4.2.1 and 4.5.3).
func (p *Pages) timeGate(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	w.Header().Set("Vary", "accept-datetime")
	url, err := replay.ParseURL(target(r, api.PathTimeGate))
	if err != nil {
		return err
	}
	var wanted time.Time
	if text := r.Header.Get("Accept-Datetime"); text != "" {
		if wanted, err = time.Parse(http.TimeFormat, text); err != nil {
			return problem.New(http.StatusBadRequest, "accept_datetime",
				fmt.Sprintf("Accept-Datetime %.60q: want a time such as %s", text, http.TimeFormat))
		}
	}
	all, err := p.mementos(w, r, a, url)
	if all == nil {
		return err
	}
	left := maxLookedInto
	i, err := all.choose(r.Context(), replay.Period{Since: wanted, Time: wanted}, &left)
	if err != nil {
		return err
	}
	if i < 0 {
		return p.missing(w, r, a, url)
	}
	p.link(w, r, all, -1, url)
	guard.Found(w, p.origin(r)+path(all[i]))
	return nil
}

// related is one link of a Link header or a TimeMap.
type related struct{ uri, attrs string }

func (l related) String() string { return "<" + escaped.Replace(l.uri) + ">; " + l.attrs }

// escaped escapes the characters that a stored URL may have and a link may not.
var escaped = strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22")

func mementoLink(uri string, c *records.Capture, rel string) related {
	return related{uri, fmt.Sprintf(`rel="%s"; datetime="%s"`, rel, c.Time.UTC().Format(http.TimeFormat))}
}

// about returns the links that every answer about a page has: to the page, to its TimeGate and,
// with the given relation, to a TimeMap.
func about(origin, url, rel string, m stretch) []related {
	return []related{
		{url, `rel="original"`},
		{origin + api.PathTimeGate + replay.InPath(url), `rel="timegate"`},
		timeMapLink(origin, url, rel, m),
	}
}

// link sets the Link header of an answer about version i, or about the page if i is -1.
func (p *Pages) link(w http.ResponseWriter, r *http.Request, all mementos, i int, url string) {
	origin := p.origin(r)
	links := about(origin, url, "timemap", whole(all))
	last := len(all) - 1
	places := []int{0, last}
	if i >= 0 {
		places = append(places, i-1, i+1)
	}
	slices.Sort(places)
	for _, j := range slices.Compact(places) {
		if j >= 0 && j <= last {
			links = append(links, mementoLink(origin+path(all[j]), all[j], relation(j == 0, i >= 0 && j == i-1, i >= 0 && j == i+1, j == last)))
		}
	}
	var values []string
	for _, l := range links {
		values = append(values, l.String())
	}
	w.Header().Set("Link", strings.Join(values, ", "))
}

// relation returns a version's rel: the names of the arguments that are true, then memento.
func relation(first, prev, next, last bool) string {
	var rel string
	for _, r := range []struct {
		name string
		is   bool
	}{{"first ", first}, {"prev ", prev}, {"next ", next}, {"last ", last}} {
		if r.is {
			rel += r.name
		}
	}
	return rel + "memento"
}
