package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/problem"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/replay"
	"sheaf/serve/watch"
)

// Front is the front page for programs: the JSON answer of GET /. It leaves out what the reader may
// not know.
type Front struct {
	Name     string            `json:"name"`
	About    string            `json:"about,omitempty"`
	Contact  string            `json:"contact,omitempty"`
	Program  string            `json:"program"` // version
	Next     time.Time         `json:"next_publication,omitzero"`
	Hosts    int64             `json:"hosts,omitempty"`
	Yours    int64             `json:"hosts_of_account,omitempty"` // number of hosts in the account's domains, if these are not all
	Records  int64             `json:"records,omitempty"`          // published records of all editions
	Stored   int64             `json:"bytes,omitempty"`            // bytes of all segments
	Editions []catalog.Edition `json:"editions,omitempty"`
	Links    map[string]string `json:"links"`
}

// newest is how many editions the front page lists.
const newest = 10

// frontPage is the front page for people.
type frontPage struct {
	webpage.Page
	Front
	Account *account.Account // nil: the reader has to log in
	Purpose string           // of the archive, in the reader's language; empty: not told
	Host    string           // an example for the commands; empty: there is none
	commands
	Chart   webpage.Chart
	Changes []change
	Days    []editionDay // the newest
	Open    bool         // an edition appears as soon as there is anything new
}

// change is a host with newly published records.
type change struct {
	Host, Place string
	Page        newPage // one of its new pages; zero: none was found
	Edition     string
	Records     int64
	At          time.Time
}

// newPage is a page in an edition.
type newPage struct{ Title, Path string }

// editionDay has the editions of one day.
type editionDay struct {
	Day                   string            // the date, as in the editions' names
	Editions              []catalog.Edition // the newest of them, the last one first
	Count, Records, Bytes int64             // of all editions of the day
}

// Older returns how many editions of the day are not listed.
func (d editionDay) Older() int64 { return d.Count - int64(len(d.Editions)) }

var frontTemplate = page("front")

func (f *face) front(w http.ResponseWriter, r *http.Request, reader *account.Account) error {
	p := frontPage{Page: f.Site.For(r), Account: reader, Purpose: f.About, commands: f.commands(r)}
	if p.Lang == "ja" {
		p.Purpose = cmp.Or(f.AboutJapanese, f.About)
	}
	p.Front = Front{
		Name: f.Site.Title(), About: f.About, Contact: f.Site.Contact, Program: f.Site.Version, Next: f.nextPublication(time.Now()),
		Links: map[string]string{"files": p.Base + "/pub/", "hosts": p.Base + "/v1/hosts", "editions": p.Base + "/v1/editions",
			"changes": p.Base + "/v1/changes", "cdx": p.Base + "/v1/cdx", "openapi": p.Base + api.PathOpenAPI},
	}
	p.Open = f.Publish.Open(time.Now())
	if reader != nil {
		if err := f.figures(r, &p); err != nil {
			return err
		}
	}
	w.Header().Add("Vary", "Accept")
	if webpage.Wanted(r) {
		return webpage.Show(w, r, http.StatusOK, frontTemplate, p)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "private, no-cache")
	return json.NewEncoder(w).Encode(p.Front)
}

// figures adds the archive's figures that the account may see.
func (f *face) figures(r *http.Request, p *frontPage) error {
	editions, err := f.Room.Library.Tree.Editions(r.Context())
	if err != nil {
		return err
	}
	counts, _ := f.census.counts(r.Context())
	p.Days = byDay(editions)
	var days []string
	var pages []float64
	for _, d := range p.Days {
		p.Records += d.Records
		p.Stored += d.Bytes
		days, pages = append(days, d.Day), append(pages, float64(d.Records))
	}
	p.Hosts = counts[""].Hosts
	for _, place := range p.Account.Scope() {
		p.Yours += counts[place].Hosts
	}
	if p.Yours == p.Hosts {
		p.Yours = 0
	}
	p.Chart = webpage.NewChart(p.Page, p.T("Pages of each day"), webpage.UnitCount, webpage.NameAxis(p.T("Day"), days), webpage.Series{Values: pages})
	slices.Reverse(p.Days)
	p.Days = p.Days[:min(newest, len(p.Days))]
	slices.Reverse(editions)
	p.Editions = editions[:min(newest, len(editions))]
	return f.newestChanges(r, p)
}

// byDay sums up editions by day. They must be in the order of publication.
func byDay(editions []catalog.Edition) (days []editionDay) {
	for _, e := range editions {
		if name := catalog.DayOf(e.Name); len(days) == 0 || days[len(days)-1].Day != name {
			days = append(days, editionDay{Day: name})
		}
		d := &days[len(days)-1]
		d.Editions = append([]catalog.Edition{e}, d.Editions[:min(len(d.Editions), newest-1)]...)
		d.Count++
		d.Records += e.Records
		d.Bytes += e.Bytes
	}
	return days
}

// newestChanges adds the latest published changes of the account's hosts.
func (f *face) newestChanges(r *http.Request, p *frontPage) error {
	const looked = 200
	segments, err := f.Room.Library.Records.Latest(r.Context(), p.Account, newest, looked)
	if err != nil {
		return err
	}
	for _, l := range segments {
		page, err := f.newPage(r.Context(), p.Account, l)
		if err != nil {
			return err
		}
		p.Changes = append(p.Changes, change{Host: l.Host, Place: browsePath(l.Host), Page: page, Edition: l.Edition, Records: l.Records, At: l.Published})
	}
	if len(p.Changes) > 0 {
		p.Host = p.Changes[0].Host
	}
	return nil
}

// newPage returns one new page of a segment, or the zero newPage if the segment has none.
func (f *face) newPage(ctx context.Context, a *account.Account, of catalog.SegmentEntry) (newPage, error) {
	url, at, err := f.Room.Library.Records.Foremost(ctx, a, of)
	if err != nil || url == "" {
		return newPage{}, err
	}
	key := fmt.Sprintf("%s %s %d", of.SHA256, url, at.UnixNano())
	title, known := f.titles.Get(key)
	if !known {
		captures, err := f.Room.Library.Records.Captures(ctx, a, url)
		if err != nil {
			return newPage{}, err
		}
		title = watch.TitleOf(ctx, url, at, captures)
		f.titles.Add(key, title)
	}
	return newPage{cmp.Or(title, url), replay.Path(at, replay.Plain, url)}, nil
}

// webmastersPage tells the owners of sites who visits them, and how to be left out.
type webmastersPage struct {
	webpage.Page
	About string
}

var webmastersTemplate = page("webmasters")

func (f *face) webmasters(w http.ResponseWriter, r *http.Request) error {
	return webpage.Show(w, r, http.StatusOK, webmastersTemplate, webmastersPage{Page: f.Site.For(r), About: f.About})
}

// robotsTxt restricts search engines to the pages about the archive. The archived pages are other
// people's, and would be found twice.
func robotsTxt(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=86400")
	fmt.Fprint(w, "User-agent: *\nAllow: /$\nAllow: /webmasters\nAllow: /removal$\nAllow: /robots/$\nDisallow: /\n")
	return nil
}

// securityTxt says whom to tell of a security hole (RFC 9116). Without a contact it answers 404.
func (f *face) securityTxt(w http.ResponseWriter, r *http.Request) error {
	contact := string(f.Site.ContactLink())
	if contact == "" {
		problem.NotFound(w, r)
		return nil
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	until := time.Now().AddDate(0, 6, 0).UTC().Truncate(24 * time.Hour)
	var text strings.Builder
	fmt.Fprintf(&text, "Contact: %s\nExpires: %s\nPreferred-Languages: en, ja\n", contact, until.Format(time.RFC3339))
	if f.Public != "" {
		fmt.Fprintf(&text, "Canonical: %s/.well-known/security.txt\n", f.Public)
	}
	fmt.Fprint(w, text.String())
	return nil
}
