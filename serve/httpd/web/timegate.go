package web

import (
	"fmt"
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
