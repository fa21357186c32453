package board

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
)

// auditPage shows the audit log, with a form for searching it.
type auditPage struct {
	page
	Query     url.Values
	Rows      []auditRow
	Kinds     []choice
	Acts      []choice
	Outcomes  []choice
	CSV, Next string // paths; Next is empty on the last page
}

// auditRow is a row in the reader's language.
type auditRow struct {
	audit.Row
	KindName, ActName, OutcomeName string
}

// choice is one item of a list in a form.
type choice struct {
	Value, Name string
	Now         bool
}

var auditTemplate = parse("audit")

func (b *board) audit(w http.ResponseWriter, r *http.Request) error {
	q := url.Values{}
	for name, values := range r.URL.Query() { // a form also sends its empty fields
		if values[0] != "" {
			q.Set(name, values[0])
		}
	}
	asked, err := route.Query[audit.Query](q)
	if err != nil {
		return err
	}
	filter, err := asked.Filter(b.Site.Local(time.Now()).Location())
	if err != nil {
		return err
	}
	found, err := b.Audit.Page(r.Context(), filter)
	if err != nil {
		return err
	}
	p := auditPage{page: b.page(r), Query: q}
	for _, row := range found.Rows {
		p.Rows = append(p.Rows, auditRow{row, kindName(p.Page, row.Kind), actName(p.Page, row.Act), outcomeName(p.Page, row.Outcome)})
	}
	for _, k := range audit.Kinds() {
		p.Kinds = append(p.Kinds, choice{string(k), kindName(p.Page, k), k == filter.Kind})
	}
	for _, a := range audit.Acts() {
		p.Acts = append(p.Acts, choice{string(a), actName(p.Page, a), a == filter.Act})
	}
	for _, o := range audit.Outcomes() {
		p.Outcomes = append(p.Outcomes, choice{string(o), outcomeName(p.Page, o), o == filter.Outcome})
	}
	if found.Next != 0 {
		q.Set("before", strconv.FormatInt(found.Next, 10))
		p.Next = pathAudit + "?" + q.Encode()
		q.Del("before")
	}
	csv := url.Values{"format": {"csv"}, "limit": {"10000"}}
	for name := range q {
		csv.Set(name, q.Get(name))
	}
	p.CSV = api.PathAudit + "?" + csv.Encode()
	return webpage.Show(w, r, http.StatusOK, auditTemplate, p)
}

// kindName names a kind of actor in the reader's language.
func kindName(p webpage.Page, k audit.Kind) string {
	switch k {
	case audit.Operator:
		return p.T("operator")
	case audit.Account:
		return p.T("account")
	case audit.Robot:
		return p.T("robot")
	case audit.Visitor:
		return p.T("visitor")
	case audit.Command:
		return p.T("command")
	}
	return string(k)
}

// outcomeName names the outcome of an act in the reader's language.
func outcomeName(p webpage.Page, o audit.Outcome) string {
	switch o {
	case audit.Begun:
		return p.T("end not known")
	case audit.OK:
		return p.T("done")
	case audit.Failed:
		return p.T("failed")
	case audit.Refused:
		return p.T("not allowed")
	}
	return string(o)
}

// actName names an act in the reader's language.
func actName(p webpage.Page, a audit.Act) string {
	switch a {
	case audit.Login:
		return p.T("log-in")
	case audit.Logout:
		return p.T("log-out")
	case audit.Join:
		return p.T("join")
	case audit.Add:
		return p.T("add")
	case audit.Change:
		return p.T("change")
	case audit.Remove:
		return p.T("remove")
	case audit.Decide:
		return p.T("decide")
	case audit.Order:
		return p.T("order to robots")
	case audit.Publish:
		return p.T("publish")
	case audit.Release:
		return p.T("release of the program")
	case audit.Takedown:
		return p.T("take-down")
	case audit.Lift:
		return p.T("lift a take-down")
	case audit.Import:
		return p.T("import")
	case audit.Collect:
		return p.T("collect, upkeep")
	case audit.Backup:
		return p.T("backup")
	case audit.Restore:
		return p.T("restore a backup")
	}
	return string(a)
}
