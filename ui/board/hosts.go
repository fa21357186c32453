package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gorilla/mux"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/internal/problem"
	"sheaf/internal/route"
	"sheaf/manager"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
)

// hostsPage lists hosts, or counts them by registered domain. For hosts that wait for a decision it
// has a form.
type hostsPage struct {
	page
	Query  hostsQuery
	State  hosts.State // empty: all
	Hosts  []hosts.Host
	Groups []hosts.Group
	Match  int // number of waiting hosts that match; at most mostWaiting
	Pager  pager
	States []hosts.State
}

// Decidable reports whether the reader can decide about these hosts now.
func (p hostsPage) Decidable() bool { return p.State == hosts.Pending && p.May(operators.Worker) }

// Many reports whether more hosts may match than were counted.
func (p hostsPage) Many() bool { return p.Match == mostWaiting }

// Asked reports whether the query selects only some hosts of the state.
func (p hostsPage) Asked() bool {
	return p.Query.Part != "" || p.Query.Domain != "" || p.Query.Robot != "" || p.Query.Unanswered
}

// Of returns the path of the list of a domain's hosts in a state; "" stands for all states.
func (p hostsPage) Of(domain string, state hosts.State) string {
	state = cmp.Or(state, "all")
	return pathHosts + "?" + url.Values{"state": {string(state)}, "domain": {domain}, "part": {p.Query.Part}, "robot": {p.Query.Robot}}.Encode()
}

// HostState names the state of a host in the reader's language.
func (p page) HostState(s hosts.State) string {
	return cmp.Or(map[hosts.State]string{
		hosts.Accepted: p.T("accepted"),
		hosts.Pending:  p.T("waiting for a decision"),
		hosts.Refused:  p.T("refused"),
	}[s], p.T("all"))
}

// Answer describes a host's answer to the last visit: its status, or why there was none.
func (p page) Answer(v hosts.LastVisit) string {
	switch {
	case v.Why != "":
		return p.T("none: %s", v.Why)
	case v.Status != 0:
		return strconv.Itoa(v.Status)
	}
	return "–"
}

func (b *board) hosts(r *http.Request) (any, error) {
	given := filled(r)
	q, err := route.Query[hostsQuery](given)
	if err != nil {
		return nil, err
	}
	p := hostsPage{page: b.page(r), Query: q, State: q.State, States: []hosts.State{hosts.Pending, hosts.Accepted, hosts.Refused, "all"}}
	if len(given) == 0 || len(given) == 1 && given.Has("after") {
		p.State, p.Query.State = hosts.Pending, hosts.Pending
	}
	if p.State == "all" || p.State == "" {
		p.State, p.Query.State = "", "all"
	}
	ctx, f := r.Context(), hosts.Filter{State: p.State, Part: q.Part, Domain: q.Domain, Robot: q.Robot, Unanswered: q.Unanswered}
	if p.State == hosts.Pending {
		f.Robot, f.FoundBy = "", q.Robot
	}
	if q.Grouped {
		groups, err := b.Manager.Hosts.Groups(ctx, f, q.After, listed+1)
		if err != nil {
			return nil, err
		}
		p.Groups, p.Pager = after(r, groups, func(g hosts.Group) string { return g.Domain })
	} else {
		list, err := b.Manager.Hosts.Hosts(ctx, f, q.After, listed+1)
		if err != nil {
			return nil, err
		}
		p.Hosts, p.Pager = after(r, list, func(h hosts.Host) string { return h.Name })
	}
	if p.Decidable() && len(p.Hosts) > 1 && !q.Unanswered { // a decision about all hosts cannot select by the last answer
		if p.Match, err = b.Manager.Hosts.CountOf(ctx, f, mostWaiting); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// robotNames returns the names of the robots.
func (b *board) robotNames(ctx context.Context) (names []string, err error) {
	robots, err := b.Manager.Roster.Robots(ctx)
	for _, one := range robots {
		names = append(names, one.Name)
	}
	return names, err
}

// decideHosts accepts or refuses the checked hosts, or all that match.
func (b *board) decideHosts(r *http.Request, in hostsForm) (string, error) {
	decision := hosts.DecideRequest{State: in.Act, Hosts: in.Hosts}
	if in.Match {
		decision = hosts.DecideRequest{State: in.Act, All: true, Domain: in.Domain, FoundBy: in.Robot, Part: in.Part, Most: in.Most}
	} else if len(in.Hosts) == 0 {
		return pathHosts, nil
	}
	audit.Note(r.Context(), audit.Row{Object: decision.String()})
	n, err := b.Manager.Hosts.Decide(r.Context(), decision)
	if err != nil {
		return "", explained(err)
	}
	b.Log.InfoContext(r.Context(), "operator decides about hosts", "by", by(r), "decision", in.Act, "hosts", n)
	return pathHosts + "?" + url.Values{"state": {string(hosts.Pending)}, "part": {in.Part}, "domain": {in.Domain}, "robot": {in.Robot}}.Encode(), nil
}

// hostShown is the data of a host's page.
type hostShown struct {
	One    hosts.Host
	Robots []string // robots that may get the host
}

// registerHost mounts the page of a host. Its forms carry out the same operations as the API.
func (b *board) registerHost(mount route.Mount) {
	const path = pathHosts + "/{name}"
	one := b.list(mount, path, "host", "One host", b.fillHost)
	does(one, mount, path+"/visit", manager.VisitHosts, func(ctx context.Context, in manager.VisitRequest) (answer manager.VisitResponse, err error) {
		audit.About(ctx, fmt.Sprintf("visit %d hosts:", len(in.Hosts)), strings.Join(in.Hosts, " "))
		answer.Robots, err = b.Manager.Hosts.OrderVisits(ctx, in.Hosts)
		return answer, err
	}, func(_ route.None, host string) (manager.VisitRequest, error) {
		return manager.VisitRequest{Hosts: []string{host}}, nil
	}, nil, nil)
	does(one, mount, path+"/interval", manager.SetInterval, route.Done(func(ctx context.Context, in hosts.IntervalRequest) error {
		audit.Note(ctx, audit.Row{Object: in.String()})
		return b.Manager.Hosts.SetInterval(ctx, in)
	}), func(f intervalForm, host string) (hosts.IntervalRequest, error) {
		return hosts.IntervalRequest{Hosts: []string{host}, Interval: f.Interval, Reason: f.Reason}, nil
	}, nil, nil)
	does(one, mount, path+"/assign", manager.AssignHosts, func(ctx context.Context, in hosts.AssignRequest) (hosts.AssignResponse, error) {
		audit.Note(ctx, audit.Row{Object: in.String()})
		return b.Manager.Hosts.Assign(ctx, in)
	}, func(f pinForm, host string) (hosts.AssignRequest, error) {
		return hosts.AssignRequest{Hosts: []string{host}, Robot: f.Robot, Reason: f.Reason}, nil
	}, nil, nil)
	does(one, mount, path+"/remove", manager.RemoveHost, route.Done(b.removeHost), justName, nil, nil)
}

func (b *board) removeHost(ctx context.Context, host string) error {
	audit.About(ctx, "host", host)
	return b.Manager.Hosts.RemoveHost(ctx, host)
}

func (b *board) fillHost(r *http.Request, p *listPage) error {
	one, err := b.Manager.Hosts.Host(r.Context(), mux.Vars(r)["name"])
	if err != nil {
		return err
	}
	robots, err := b.robotNames(r.Context())
	p.List, p.HasTakedowns, p.HasLibrary = hostShown{one, robots}, b.Ingest != nil, b.Library != nil
	return err
}

// hostProblem turns an error of the manager about a host into an HTTP problem. It returns other
// errors unchanged.
func hostProblem(err error) error {
	var invalid assign.Invalid
	switch {
	case errors.As(err, &invalid):
		return problem.New(http.StatusUnprocessableEntity, "bad_form", invalid.Error())
	case errors.Is(err, assign.ErrUnknownHost):
		return problem.New(http.StatusNotFound, "not_found", "there is no such host")
	}
	return err
}
