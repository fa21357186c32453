package ui

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/internal/chart"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
)

// Front is what the front page tells: the answer of GET / for programs. What the reader may not
// know is left out.
type Front struct {
	Name     string            `json:"name"`
	About    string            `json:"about,omitempty"`
	Contact  string            `json:"contact,omitempty"`
	Program  string            `json:"program"` // version
	Next     time.Time         `json:"next_publication,omitzero"`
	Hosts    int64             `json:"hosts,omitempty"`
	Yours    int64             `json:"hosts_of_account,omitempty"` // those of the account's domains, if not all
	Records  int64             `json:"records,omitempty"`          // published, all editions
	Stored   int64             `json:"bytes,omitempty"`            // of segments
	Editions []catalog.Edition `json:"editions,omitempty"`
	Links    map[string]string `json:"links"`
}

// newest is how many editions the front page lists.
const newest = 10

// frontPage is the front page for people.
type frontPage struct {
	webpage.Page
	Front
	Account *account.Account // nil: who asks has to log in
	Host    string           // an example for the commands; empty: there is none
	commands
	Chart   chart.Chart
	Changes []change
	Open    bool // the next edition appears as soon as there is something new
}

// change is one host of which the newest edition brought something.
type change struct {
	Host, Place string
	Edition     string
	Records     int64
	At          time.Time
}

var frontTemplate = page("front")

func (f *face) front(w http.ResponseWriter, r *http.Request, reader *account.Account) error {
	p := frontPage{Page: f.Site.For(r), Account: reader, commands: f.commands(r)}
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

// figures adds what the account may see of the archive.
func (f *face) figures(r *http.Request, p *frontPage) error {
	editions, err := f.Library.Tree.Editions(r.Context())
	if err != nil {
		return err
	}
	counts, _ := f.census.counts(r.Context())
	var names []string
	var pages []float64
	for _, e := range editions {
		p.Records += e.Records
		p.Stored += e.Bytes
		names, pages = append(names, e.Name), append(pages, float64(e.Records))
	}
	p.Hosts = counts[""].Hosts
	for _, place := range placesOf(p.Account) {
		p.Yours += counts[place].Hosts
	}
	if p.Yours == p.Hosts {
		p.Yours = 0
	}
	p.Chart = chart.New(p.Page, p.T("Pages of each edition"), chart.Count, chart.Names(p.T("Edition"), names), chart.Series{Values: pages})
	slices.Reverse(editions)
	p.Editions = editions[:min(newest, len(editions))]
	return f.newestChanges(r, p)
}

// newestChanges lists what was published last of the account's hosts.
func (f *face) newestChanges(r *http.Request, p *frontPage) error {
	const looked = 200
	segments, err := f.Library.Records.Latest(r.Context(), p.Account, newest, looked)
	if err != nil {
		return err
	}
	for _, l := range segments {
		p.Changes = append(p.Changes, change{Host: l.Host, Place: browsePath(l.Host), Edition: l.Edition, Records: l.Records, At: l.Published})
	}
	if len(p.Changes) > 0 {
		p.Host = p.Changes[0].Host
	}
	return nil
}
