package httpd

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sheaf/internal/problem"
	"sheaf/serve"
	"sheaf/serve/account"
	"sheaf/serve/replay"
)

// The TimeGate of RFC 7089, the way to the version of a page at a time, and the links that
// lead from each answer about a page to the others.

// timeGate serves /timegate/<URL>: it leads to the version nearest to Accept-Datetime,
// without which that is the newest (RFC 7089, 4.2.1 and 4.5.3).
func (s *server) timeGate(w http.ResponseWriter, r *http.Request, a *account.Account) error {
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
	if !strings.ContainsAny(s, `<>"`) {
		return s
	}
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

// about gives the links that every answer about a page has: to it, its TimeGate and, by the relation
// given, a TimeMap.
func (s *server) about(r *http.Request, url, rel string, m stretch) []related {
	return []related{
		{uri(url), `rel="original"`},
		{uri(s.origin(r) + pathTimeGate + url), `rel="timegate"`},
		s.timeMapLink(r, url, rel, m),
	}
}

// link sets the Link header of version i, or of the page where i is -1.
func (s *server) link(w http.ResponseWriter, r *http.Request, all mementos, i int, url string) {
	links := s.about(r, url, "timemap", whole(all))
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
