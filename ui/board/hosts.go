package board

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/internal/webpage"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
)

// hostsPage lists hosts. Of those that wait for a decision it has a form.
type hostsPage struct {
	page
	State  hosts.State // empty: all
	Robot  string      // that has them; empty: any
	Hosts  []hosts.Host
	Pager  pager
	States []hosts.State
}

// Decidable reports whether the hosts wait for a decision.
func (p hostsPage) Decidable() bool { return p.State == hosts.Pending }

// StateName says a state in the reader's words.
func (p hostsPage) StateName(s hosts.State) string {
	switch s {
	case hosts.Accepted:
		return p.T("accepted")
	case hosts.Pending:
		return p.T("waiting for a decision")
	case hosts.Refused:
		return p.T("refused")
	}
	return string(s)
}

var (
	hostsTemplate = parse("hosts")
	hostTemplate  = parse("host")
)

// hostPage shows one host.
type hostPage struct {
	hostsPage
	One hosts.Host
}

func (b *board) host(w http.ResponseWriter, r *http.Request) error {
	one, err := b.Manager.Hosts.Host(r.Context(), mux.Vars(r)["host"])
	if errors.Is(err, assign.ErrUnknownHost) {
		return problem.New(http.StatusNotFound, "not_found", "there is no such host")
	}
	if err != nil {
		return err
	}
	return webpage.Show(w, r, http.StatusOK, hostTemplate, hostPage{hostsPage{page: b.page(r)}, one})
}

// Answer says what the last visit to a host has got.
func (p hostsPage) Answer(v hosts.LastVisit) string {
	switch {
	case v.Why != "":
		return p.T("none: %s", v.Why)
	case v.Status != 0:
		return strconv.Itoa(v.Status)
	}
	return "–"
}

func (b *board) hosts(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	p := hostsPage{page: b.page(r), State: hosts.State(q.Get("state")), Robot: q.Get("robot"), States: []hosts.State{hosts.Pending, hosts.Accepted, hosts.Refused}}
	if p.State == "" && p.Robot == "" {
		p.State = hosts.Pending
	}
	list, err := b.Manager.Hosts.Hosts(r.Context(), hosts.Filter{State: p.State, Robot: p.Robot}, q.Get("after"), listed+1)
	if err != nil {
		return err
	}
	p.Hosts, p.Pager = after(r, list, func(h hosts.Host) string { return h.Name })
	return webpage.Show(w, r, http.StatusOK, hostsTemplate, p)
}

// decideHosts accepts or refuses the hosts that are checked.
func (b *board) decideHosts(w http.ResponseWriter, r *http.Request) error {
	in, err := route.Form[hostsForm](w, r)
	if err != nil {
		return err
	}
	if len(in.Hosts) == 0 {
		return back(w, pathHosts)
	}
	decision := hosts.DecideRequest{State: in.Act, Hosts: in.Hosts}
	audit.Note(r.Context(), audit.Row{Object: decision.String()})
	n, err := b.Manager.Hosts.Decide(r.Context(), decision)
	var invalid assign.Invalid
	if errors.As(err, &invalid) {
		return problem.New(http.StatusBadRequest, "bad_form", invalid.Error())
	}
	if err != nil {
		return err
	}
	b.Log.InfoContext(r.Context(), "operator decides about hosts", "by", by(r), "decision", in.Act, "hosts", n)
	return back(w, pathHosts)
}
