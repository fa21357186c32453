package board

import (
	"errors"
	"net/http"

	"sheaf/internal/problem"
	"sheaf/internal/webpage"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
)

// hostsPage lists hosts that robots have found and that wait for a decision.
type hostsPage struct {
	webpage.Page
	Hosts []hosts.Host
	More  bool
}

var hostsTemplate = parse("hosts")

func (b *board) hosts(w http.ResponseWriter, r *http.Request) error {
	list, err := b.Manager.Hosts.Hosts(r.Context(), hosts.Pending, "", listed+1)
	if err != nil {
		return err
	}
	p := hostsPage{Page: b.page(r), Hosts: list[:min(listed, len(list))], More: len(list) > listed}
	return webpage.Show(w, r, http.StatusOK, hostsTemplate, p)
}

// decideHosts accepts or refuses the hosts that are checked.
func (b *board) decideHosts(w http.ResponseWriter, r *http.Request) error {
	form, err := readForm(w, r)
	if err != nil {
		return err
	}
	if len(form["host"]) == 0 {
		return back(w, pathHosts)
	}
	n, err := b.Manager.Hosts.Decide(r.Context(), hosts.DecideRequest{State: hosts.State(form.Get("act")), Hosts: form["host"]})
	var invalid assign.Invalid
	if errors.As(err, &invalid) {
		return problem.New(http.StatusBadRequest, "bad_form", invalid.Error())
	}
	if err != nil {
		return err
	}
	b.Log.Info("operator decides about hosts", "by", by(r), "decision", form.Get("act"), "hosts", n)
	return back(w, pathHosts)
}
