package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/internal/webpage"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/replay"
)

// shown is the number of a host's files on its page.
const shown = 60

// listed is the number of entries of a level on one page.
const listed = 500

// placePage is the page of one place of the tree: of a domain, of a host, or of both.
type placePage struct {
	webpage.Page
	Place    string // such as jp/ac/waseda; "" is the root
	Name     string // such as waseda.ac.jp; empty at the root and where names are grouped by first letters
	Trail    []link // the places above
	Count    count
	Entries  []entry
	More     string // path of the next entries; empty at the end
	Host     *hostPart
	Watch    string // path of the form for watching the host; empty: there is none
	Volumes  string // directory in the tree with the newest day's records of the domain; empty: there are none
	Current  string // directory in the tree with the latest version of every page of the domain; empty: not offered
	AsOf     string // the edition whose versions Current has
	Day      string // the newest day
	Commands commands
}

type link struct{ Name, Path string }

// entry is a place below the page's.
type entry struct {
	Name, Path string
	Count      count // zero: not counted
}

// hostPart is what the page shows of the host itself.
type hostPart struct {
	catalog.HostInfo
	Pages     int64 // number of different URLs; 0: not counted
	Charts    []webpage.Chart
	Calendar  []year
	Files     []library.Node // the newest files
	Older     int            // number of older files
	Dir       string         // directory of the files
	Commands  commands
	Missed    []missing // pages that the newest batch lacks, by reason
	MissedOf  string    // edition of that batch
	TakenDown []catalog.Tombstone
}

var placeTemplate = page("place")

func (f *face) place(w http.ResponseWriter, r *http.Request, a *account.Account) error {
	place := strings.Trim(mux.Vars(r)["place"], "/")
	if !strings.HasSuffix(r.URL.Path, "/") {
		http.Redirect(w, r, r.URL.Path+"/", http.StatusMovedPermanently)
		return nil
	}
	p := placePage{Page: f.Site.For(r), Place: place, Name: nameOf(place), Trail: trail(place)}
	counts, _ := f.census.counts(r.Context())
	p.Count = counts[place]
	host, err := f.hostOf(r, a, p.Name)
	if err != nil {
		return err
	}
	var files []library.Node // they come after the directories
	after := r.URL.Query().Get("after")
	for n, err := range f.Room.Library.Tree.List(r.Context(), a, "/"+place) {
		switch {
		case err != nil:
			return err
		case !n.Dir:
			files = append(files, n)
		case place == "" && slices.Contains(notDomains, n.Name) || n.Name <= after:
		case len(p.Entries) == listed:
			p.More = "?" + url.Values{"after": {p.Entries[listed-1].Name}}.Encode()
		default:
			p.Entries = append(p.Entries, entry{Name: entryName(n.Name, p.Name), Path: "/browse" + path.Join("/", place, n.Name) + "/", Count: counts[path.Join(place, n.Name)]})
		}
		if p.More != "" && host == nil {
			break
		}
	}
	if host != nil && len(files) > 0 {
		if err := f.host(r, a, &p, host, files); err != nil {
			return err
		}
	}
	if p.Host == nil && place != "" {
		if err := f.volumes(r, a, &p); err != nil {
			return err
		}
	}
	return webpage.Show(w, r, http.StatusOK, placeTemplate, p)
}

// notDomains are the directories at the root of the tree that are not domains.
var notDomains = []string{"current", "days", "editions", "feed"}

// volumes adds the directory with the newest day's records of a domain.
func (f *face) volumes(r *http.Request, a *account.Account, p *placePage) error {
	days, err := f.Room.Library.Tree.Days(r.Context())
	if err != nil || len(days) == 0 {
		return err
	}
	newest := days[len(days)-1]
	dir := path.Join("days", newest, p.Place)
	switch _, err := f.Room.Library.Tree.Stat(r.Context(), a, "/"+dir); {
	case library.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	p.Volumes, p.Day, p.Commands = dir, newest, f.commands(r)
	p.Current, p.AsOf, err = f.Room.Library.Tree.NewestCurrent(r.Context(), a, p.Place)
	return err
}

// mostCounted is the most captures of a host that are read to count its pages. That takes 0.1 s, or
// 0.7 s if their indexes are not cached.
const mostCounted = 50_000

// hostOf returns what the catalog has of a place that is a host, or nil.
func (f *face) hostOf(r *http.Request, a *account.Account, name string) (*catalog.HostInfo, error) {
	if name == "" {
		return nil, nil
	}
	info, _, err := f.Room.Library.Tree.Hosts(r.Context(), a, catalog.Key(name), "", 1)
	if err != nil || len(info) == 0 || info[0].Host != name {
		return nil, err
	}
	return &info[0], nil
}

// host adds the part about the host itself.
func (f *face) host(r *http.Request, a *account.Account, p *placePage, info *catalog.HostInfo, files []library.Node) (err error) {
	h := &hostPart{HostInfo: *info, Files: files, Dir: "/pub/" + p.Place + "/", Commands: f.commands(r)}
	if f.Room.Watches != nil {
		p.Watch = api.PathWatching + "?" + url.Values{"host": {p.Name}}.Encode()
	}
	if h.Records <= mostCounted {
		if h.Pages, err = f.Room.Library.Records.CountPages(r.Context(), a, p.Name); err != nil {
			return err
		}
	}
	slices.Reverse(h.Files)
	if len(h.Files) > shown {
		h.Older, h.Files = len(h.Files)-shown, h.Files[:shown]
	}
	report, err := library.ReportHost(r.Context(), f.Room.Library.Archive, a, p.Name)
	if err != nil {
		return err
	}
	h.TakenDown = report.TakenDown
	if c := report.Newest; c != nil {
		h.Missed, h.MissedOf = missed(p.Page, c), c.Edition
	}
	var editions []string
	var pages, sizes []float64
	days := make(map[string]day)
	for _, e := range byEdition(report.Segments) {
		name := e.name
		editions, pages, sizes = append(editions, name), append(pages, float64(e.records)), append(sizes, float64(e.bytes))
		if len(name) >= 8 { // 20261121-2 is of the same day as 20261121
			days[name[:8]] = day{Path: replay.Root + name[:8] + "/http://" + p.Name + "/", Captures: days[name[:8]].Captures + e.records}
		}
	}
	axis := webpage.NameAxis(p.T("Edition"), editions)
	h.Charts = []webpage.Chart{
		webpage.NewChart(p.Page, p.T("Pages of each edition"), webpage.UnitCount, axis, webpage.Series{Values: pages}),
		webpage.NewChart(p.Page, p.T("Bytes of each edition"), webpage.UnitBytes, axis, webpage.Series{Values: sizes}),
	}
	h.Calendar = calendar(days)
	p.Host = h
	return nil
}

// missing counts pages that were not collected for one reason.
type missing struct {
	Reason string
	Pages  int64
}

// missed lists the reasons why a host's pages are missing, from a batch's coverage, in the reader's
// language. The most frequent reason comes first.
func missed(p webpage.Page, c *api.Coverage) (all []missing) {
	add := func(n int64, reason string) {
		if n > 0 {
			all = append(all, missing{reason, n})
		}
	}
	add(c.Refused, p.T("robots.txt forbids them, or their owner asked the archive"))
	add(c.Withheld, p.T("the page asks not to be archived"))
	for why, n := range c.Failed {
		add(n, p.T("the request failed: %s", why))
	}
	for why, n := range c.Cut {
		add(n, p.T("links not followed: %s", why))
	}
	for why, n := range c.Truncated {
		add(n, p.T("kept only in part: %s", why))
	}
	add(c.Left, p.T("no time was left for them in this visit"))
	add(c.Later, p.T("known, and due on a later visit"))
	slices.SortFunc(all, func(a, b missing) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), strings.Compare(a.Reason, b.Reason))
	})
	return all
}

// brought sums up what one edition has of a host.
type brought struct {
	name           string
	records, bytes int64
}

// byEdition sums up a host's segments by edition. They must be in the order of publication.
func byEdition(segments []catalog.SegmentEntry) (editions []brought) {
	for _, s := range segments {
		if n := len(editions); n == 0 || editions[n-1].name != s.Edition {
			editions = append(editions, brought{name: s.Edition})
		}
		last := &editions[len(editions)-1]
		last.records += s.Records
		last.bytes += s.Length
	}
	return editions
}

// year is one year of a host's calendar.
type year struct {
	Year   int
	Months []month
}

// month consists of weeks from Monday to Sunday; days of other months are zero.
type month struct {
	Number int
	Weeks  [][]day
}

type day struct {
	Number   int    // 0: of another month
	Path     string // path of the home page on this day; empty: there is no edition of the day
	Captures int64  // captures in the day's editions
}

// Weekdays returns the heads of a month's columns.
func (p placePage) Weekdays() []string { return strings.Fields(p.T("Mo Tu We Th Fr Sa Su")) }

// calendar returns the years, newest first, with those months that have an archived day. days has
// keys like 20061231.
func calendar(days map[string]day) (years []year) {
	var first, last time.Time
	for name := range days {
		at, err := time.Parse("20060102", name)
		if err != nil {
			continue
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	if first.IsZero() {
		return nil
	}
	for at := time.Date(first.Year(), first.Month(), 1, 0, 0, 0, 0, time.UTC); !at.After(last); at = at.AddDate(0, 1, 0) {
		m, any := month{Number: int(at.Month())}, false
		week := make([]day, (int(at.Weekday())+6)%7, 7)
		for d := at; d.Month() == at.Month(); d = d.AddDate(0, 0, 1) {
			archived := days[d.Format("20060102")]
			any = any || archived.Path != ""
			archived.Number = d.Day()
			if week = append(week, archived); len(week) == 7 {
				m.Weeks, week = append(m.Weeks, week), nil
			}
		}
		if len(week) > 0 {
			m.Weeks = append(m.Weeks, week)
		}
		if !any {
			continue
		}
		if n := len(years); n == 0 || years[n-1].Year != at.Year() {
			years = append(years, year{Year: at.Year()})
		}
		y := &years[len(years)-1]
		y.Months = append(y.Months, m)
	}
	slices.Reverse(years)
	return years
}

// nameOf returns the name of the domain or host at a place, or "" if it has none.
func nameOf(place string) string {
	if place == "" || strings.Contains(place, "+") {
		return ""
	}
	name, _ := naming.HostFromPath(place) // fails if the place is not a host's
	return name
}

// entryName returns the usual name of an entry: for www below jp/ac/waseda it is www.waseda.ac.jp.
func entryName(entry, above string) string {
	if above == "" || strings.Contains(entry, "+") {
		return entry
	}
	name, port, ok := strings.Cut(entry, "_")
	if ok {
		return name + "." + above + ":" + port
	}
	return entry + "." + above
}

// trail returns the places above a place, the root first.
func trail(place string) (links []link) {
	if place == "" {
		return nil
	}
	links = append(links, link{Path: "/browse/"})
	labels := strings.Split(place, "/")
	for i := range labels[:len(labels)-1] {
		above := strings.Join(labels[:i+1], "/")
		name := labels[i]
		if n := nameOf(above); n != "" {
			name = n
		}
		links = append(links, link{name, "/browse/" + above + "/"})
	}
	return links
}
