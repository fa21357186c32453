package board

import (
	"embed"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"sheaf/internal/operators"
	"sheaf/internal/webpage"
)

//go:embed *.html
var pages embed.FS

// parse reads one page's template.
func parse(name string) webpage.Template {
	return webpage.ParseFiles(pages, "common.html", name+".html")
}

// page is the data that all pages of the board share.
type page struct {
	webpage.Page
	Menu                  []webpage.Group
	HasIngest, HasManager bool

	role operators.Role // of the reader
}

// May reports whether the reader has a role, or one that includes it. Pages use it to hide forms
// that the service would refuse.
func (p page) May(least operators.Role) bool { return p.role.Includes(least) }

// Full reports that the board's pages are as wide as the window.
func (page) Full() bool { return true }

// page returns the shared data for the page that an operator requests.
func (b *board) page(r *http.Request) page {
	p := page{Page: b.Site.For(r), HasIngest: b.Ingest != nil, HasManager: b.Manager != nil, role: operators.RoleOf(r.Context())}
	begin := func(name string) { p.Menu = append(p.Menu, webpage.Group{Name: name}) }
	add := func(there bool, name, path string) {
		if there {
			last := &p.Menu[len(p.Menu)-1].Links
			*last = append(*last, webpage.Link{Name: name, Path: path, Here: r.URL.Path == path})
		}
	}
	begin(p.T("Tonight"))
	add(true, p.T("Board"), Path)
	add(b.Ingest != nil, p.T("Batches"), pathBatches)
	add(b.Manager != nil, p.T("Robots"), pathRobots)
	add(b.Manager != nil, p.T("Levelling"), pathLevelling)
	add(true, p.T("Transfer rates"), pathTransfers)
	begin(p.T("Hosts"))
	add(b.Manager != nil, p.T("Hosts"), pathHosts)
	add(b.Removals != nil, p.T("Removals"), pathRemovals)
	add(b.Ingest != nil, p.T("Take-downs"), pathTakedowns)
	add(b.Ingest != nil, p.T("Collections"), pathCollections)
	begin(p.T("Readers"))
	add(b.Accounts != nil, p.T("Accounts"), pathAccounts)
	add(b.Accounts != nil, p.T("Access rules"), pathAccess)
	add(b.Watches != nil, p.T("Watches that fail"), pathWatches)
	begin(p.T("System"))
	add(b.Library != nil, p.T("Editions and store"), pathStore)
	add(b.Manager != nil, p.T("Releases"), pathReleases)
	add(b.Operators != nil, p.T("Operators"), pathOperators)
	add(b.Audit != nil, p.T("Audit log"), pathAudit)
	p.Menu = slices.DeleteFunc(p.Menu, func(g webpage.Group) bool { return len(g.Links) == 0 })
	return p
}

// by returns the name of a request's operator, for records.
func by(r *http.Request) string { return operators.By(r.Context(), "") }

// filled returns a request's query without the empty fields that a form also sends.
func filled(r *http.Request) url.Values {
	q := r.URL.Query()
	maps.DeleteFunc(q, func(_ string, values []string) bool { return values[0] == "" })
	return q
}

// ago returns the time since t, or 0 for the zero time.
func ago(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return time.Since(t)
}
