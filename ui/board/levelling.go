package board

import (
	"net/http"
	"time"

	"sheaf/manager/assign"
	"sheaf/manager/levelling"
)

// levellingPage compares tonight's plan with what the robots have done.
type levellingPage struct {
	page
	levelling.Status
	Robots  []share
	Pager   pager
	Passing []levelling.Passing // the first ones
	Copies  []assign.Copies     // the first ones that differ
}

// share is a robot's part of the plan, and how much of it is done.
type share struct {
	Plan levelling.Share
	Fact levelling.Backlog
	Path string
}

// Silent returns the time since the robot's last report.
func (s share) Silent() time.Duration { return ago(s.Fact.At) }

// Ends returns how long the robot still needs at its rate; 0: not known, or it has nothing left.
func (s share) Ends() time.Duration {
	if s.Fact.Rate <= 0 {
		return 0
	}
	return time.Duration(float64(s.Fact.Left) / s.Fact.Rate * float64(time.Second))
}

func (b *board) levelling(r *http.Request) (any, error) {
	p := levellingPage{page: b.page(r)}
	var err error
	if p.Status, err = b.Manager.Levelling.Status(r.Context()); err != nil {
		return nil, err
	}
	backlogs := make(map[string]levelling.Backlog)
	for _, one := range p.Backlogs {
		backlogs[one.Robot] = one
	}
	all := make([]share, 0, len(p.Status.Robots))
	for _, one := range p.Status.Robots {
		all = append(all, share{one, backlogs[one.Robot], pathRobots + "/" + one.Robot})
	}
	p.Robots, p.Pager = paged(r, all)
	if p.Passing, err = b.Manager.Levelling.Passing(r.Context(), time.Now()); err != nil {
		return nil, err
	}
	p.Passing = p.Passing[:min(len(p.Passing), listed)]
	found, err := b.Manager.Copies.List(r.Context())
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		if c.Odd && len(p.Copies) < listed {
			p.Copies = append(p.Copies, c)
		}
	}
	return p, nil
}

// Span formats milliseconds.
func (p levellingPage) Span(ms float64) string {
	if ms < 1000 {
		return p.T("%d ms", int(ms))
	}
	return p.Took(time.Duration(ms * float64(time.Millisecond)))
}

// Above returns by how many per cent the plan is longer than the lower bound of all plans.
func (p levellingPage) Above() float64 {
	if p.Plan.Bound <= 0 {
		return 0
	}
	return 100 * (p.Plan.Makespan/p.Plan.Bound - 1)
}
