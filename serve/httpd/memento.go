package httpd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"sheaf/internal/problem"
	"sheaf/serve"
	"sheaf/serve/replay"
)

// The TimeGate and TimeMaps of RFC 7089: the way to the version of a page at a time, and
// the list of its versions for programs.

const linkFormat = "application/link-format"

// timeGate serves /timegate/<URL>: it leads to the version nearest to Accept-Datetime,
// without which that is the newest (RFC 7089, 4.1 pattern 2.1).
func (s *server) timeGate(w http.ResponseWriter, r *http.Request, a *serve.Account) error {
	w.Header().Set("Vary", "accept-datetime")
	url, err := replay.ParseURL(target(r, pathTimeGate))
	if err != nil {
		return badAddress(err)
	}
	var wanted time.Time
	if text := r.Header.Get("Accept-Datetime"); text != "" {
		if wanted, err = time.Parse(http.TimeFormat, text); err != nil {
			return problem.New(http.StatusBadRequest, "accept_datetime",
				fmt.Sprintf("Accept-Datetime %.60q: want a time such as %s", text, http.TimeFormat))
		}
	}
	all, err := s.mementos(r, a, url)
	if err != nil {
		return err
	}
	i, err := s.choose(r, all, wanted)
	if err != nil {
		return err
	}
	if i < 0 {
		return s.noPage(w, r, a, url)
	}
	s.link(w, r, all, -1, url)
	found(w, s.origin(r)+replay.Path(all[i].Time, replay.Plain, all[i].URL))
	return nil
}

// uri writes a URL for between "<" and ">": a stored one may hold these.
func uri(s string) string {
	return strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22").Replace(s)
}

// related is one link of a page's versions.
type related struct {
	uri   string
	attrs string
}

func (s *server) mementoLink(r *http.Request, c *serve.Capture, rel string) related {
	return related{uri(s.origin(r) + replay.Path(c.Time, replay.Plain, c.URL)),
		fmt.Sprintf(`rel="%s"; datetime="%s"`, rel, c.Time.UTC().Format(http.TimeFormat))}
}

// about gives the links that every answer about a page has.
func (s *server) about(r *http.Request, all mementos, url, self string) []related {
	span := fmt.Sprintf(`; type="%s"; from="%s"; until="%s"`, linkFormat,
		all[0].Time.UTC().Format(http.TimeFormat), all[len(all)-1].Time.UTC().Format(http.TimeFormat))
	return []related{
		{uri(url), `rel="original"`},
		{uri(s.origin(r) + pathTimeGate + url), `rel="timegate"`},
		{uri(s.origin(r) + pathTimeMap + "link/" + url), `rel="` + self + `"` + span},
	}
}

// link sets the Link header of version i, or of the page where i is -1.
func (s *server) link(w http.ResponseWriter, r *http.Request, all mementos, i int, url string) {
	links := s.about(r, all, url, "timemap")
	last := len(all) - 1
	places := []int{0, last}
	if i >= 0 {
		places = append(places, i-1, i+1)
	}
	slices.Sort(places)
	for _, j := range slices.Compact(places) {
		if j >= 0 && j <= last {
			links = append(links, s.mementoLink(r, all[j], relation(j == 0, i >= 0 && j == i-1, i >= 0 && j == i+1, j == last)))
		}
	}
	var values []string
	for _, l := range links {
		values = append(values, "<"+l.uri+">; "+l.attrs)
	}
	w.Header().Set("Link", strings.Join(values, ", "))
}

// relation says what a version is to the others.
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

// timeMap serves /timemap/link/<URL> and /timemap/json/<URL>.
func (s *server) timeMap(w http.ResponseWriter, r *http.Request, a *serve.Account) error {
	form, rest, _ := strings.Cut(target(r, pathTimeMap), "/")
	if form != "link" && form != "json" {
		form, rest = "link", target(r, pathTimeMap)
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
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	if form == "json" {
		return s.timeMapJSON(w, r, all, url)
	}
	h.Set("Content-Type", linkFormat)
	if r.Method == http.MethodHead {
		return nil
	}
	out := bufio.NewWriter(w)
	defer out.Flush()
	for _, l := range s.about(r, all, url, "self") {
		fmt.Fprintf(out, "<%s>; %s,\n", l.uri, l.attrs)
	}
	for i, c := range all {
		l := s.mementoLink(r, c, relation(i == 0, false, false, i == len(all)-1))
		fmt.Fprintf(out, "<%s>; %s", l.uri, l.attrs)
		if i < len(all)-1 {
			io.WriteString(out, ",")
		}
		io.WriteString(out, "\n")
	}
	return nil
}

// TimeMap is the answer of /timemap/json/, in the form of the Memento aggregators.
type TimeMap struct {
	Original string            `json:"original_uri"`
	Self     string            `json:"self"`
	TimeGate string            `json:"timegate_uri"`
	TimeMaps map[string]string `json:"timemap_uri"`
	Mementos struct {
		First MementoLine   `json:"first"`
		Last  MementoLine   `json:"last"`
		List  []MementoLine `json:"list"`
	} `json:"mementos"`
}

// MementoLine is one version of a page.
type MementoLine struct {
	Datetime time.Time `json:"datetime"`
	URI      string    `json:"uri"`
}

func (s *server) timeMapJSON(w http.ResponseWriter, r *http.Request, all mementos, url string) error {
	origin := s.origin(r)
	form, link := origin+pathTimeMap+"json/"+url, origin+pathTimeMap+"link/"+url
	m := TimeMap{Original: url, Self: form, TimeGate: origin + pathTimeGate + url,
		TimeMaps: map[string]string{"link_format": link, "json_format": form}}
	for _, c := range all {
		m.Mementos.List = append(m.Mementos.List,
			MementoLine{c.Time.UTC().Truncate(time.Second), origin + replay.Path(c.Time, replay.Plain, c.URL)})
	}
	m.Mementos.First, m.Mementos.Last = m.Mementos.List[0], m.Mementos.List[len(all)-1]
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
	return nil
}
