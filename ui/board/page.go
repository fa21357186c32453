package board

import (
	"embed"
	"html/template"
	"net/http"
	"time"

	"sheaf/internal/operators"
	"sheaf/internal/webpage"
)

//go:embed *.html
var pages embed.FS

// parse reads one page's template.
func parse(name string) *template.Template {
	return webpage.ParseFiles(pages, "common.html", name+".html")
}

// page is what all pages of the board have in common.
type page struct {
	webpage.Page
	Sections              []webpage.Link
	HasIngest, HasManager bool

	role operators.Role // of the reader
}

// May reports whether the reader has a role, or one that includes it: a page shows nobody a form
// that the service would refuse.
func (p page) May(least operators.Role) bool { return p.role.Includes(least) }

// page makes the page of an operator's request.
func (b *board) page(r *http.Request) page {
	p := page{Page: b.Site.For(r), HasIngest: b.Ingest != nil, HasManager: b.Manager != nil, role: operators.RoleOf(r.Context())}
	add := func(there bool, name, path string) {
		if there {
			p.Sections = append(p.Sections, webpage.Link{Name: name, Path: path, Here: r.URL.Path == path})
		}
	}
	add(true, p.T("Board"), Path)
	add(b.Ingest != nil, p.T("Batches"), pathBatches)
	add(b.Manager != nil, p.T("Robots"), pathRobots)
	add(b.Manager != nil, p.T("Hosts"), pathHosts)
	add(b.Manager != nil, p.T("Levelling"), pathLevelling)
	add(b.Manager != nil, p.T("Releases"), pathReleases)
	add(b.Accounts != nil, p.T("Accounts"), pathAccounts)
	add(b.Accounts != nil, p.T("Access rules"), pathAccess)
	add(b.Takedowns != nil, p.T("Take-downs"), pathTakedowns)
	add(b.Takedowns != nil, p.T("Collections"), pathCollections)
	add(b.Operators != nil, p.T("Operators"), pathOperators)
	add(b.Library != nil, p.T("Editions and store"), pathStore)
	add(b.Watches != nil, p.T("Watches that fail"), pathWatches)
	add(b.Removals != nil, p.T("Removals"), pathRemovals)
	add(true, p.T("Transfer rates"), pathTransfers)
	add(b.Audit != nil, p.T("Audit log"), pathAudit)
	return p
}

// by names the operator of a request, for the record.
func by(r *http.Request) string { return operators.By(r.Context(), "") }

// back leads to a page after an act.
func back(w http.ResponseWriter, to string) error {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// ago is the time since t; 0 for the zero time.
func ago(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return time.Since(t)
}
