package board

import (
	"cmp"
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

func (b *board) audit(r *http.Request) (any, error) {
	q := filled(r)
	asked, err := route.Query[audit.Query](q)
	if err != nil {
		return nil, err
	}
	filter, err := asked.Filter(b.Site.Local(time.Now()).Location())
	if err != nil {
		return nil, err
	}
	found, err := b.Audit.Page(r.Context(), filter)
	if err != nil {
		return nil, err
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
	return p, nil
}

// kindName names a kind of actor in the reader's language.
func kindName(p webpage.Page, k audit.Kind) string {
	return cmp.Or(map[audit.Kind]string{
		audit.Operator: p.T("operator"),
		audit.Account:  p.T("account"),
		audit.Robot:    p.T("robot"),
		audit.Visitor:  p.T("visitor"),
		audit.Command:  p.T("command"),
	}[k], string(k))
}

// outcomeName names the outcome of an act in the reader's language.
func outcomeName(p webpage.Page, o audit.Outcome) string {
	return cmp.Or(map[audit.Outcome]string{
		audit.Begun:   p.T("end not known"),
		audit.OK:      p.T("done"),
		audit.Failed:  p.T("failed"),
		audit.Refused: p.T("not allowed"),
	}[o], string(o))
}

// actName names an act in the reader's language.
func actName(p webpage.Page, a audit.Act) string {
	return cmp.Or(map[audit.Act]string{
		audit.Login:    p.T("log-in"),
		audit.Logout:   p.T("log-out"),
		audit.Join:     p.T("join"),
		audit.Add:      p.T("add"),
		audit.Change:   p.T("change"),
		audit.Remove:   p.T("remove"),
		audit.Decide:   p.T("decide"),
		audit.Order:    p.T("order to robots"),
		audit.Publish:  p.T("publish"),
		audit.Release:  p.T("release of the program"),
		audit.Takedown: p.T("take-down"),
		audit.Lift:     p.T("lift a take-down"),
		audit.Import:   p.T("import"),
		audit.Collect:  p.T("collect, upkeep"),
		audit.Backup:   p.T("backup"),
		audit.Restore:  p.T("restore a backup"),
	}[a], string(a))
}
