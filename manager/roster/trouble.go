package roster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sheaf/internal/wire"
)

// Trouble is one thing that is wrong with a robot.
type Trouble struct {
	Robot  string       `json:"-"`
	Kind   wire.Trouble `json:"kind"`
	Detail string       `json:"detail,omitempty"`
	Since  time.Time    `json:"since,omitzero"` // zero: not known
	Told   time.Time    `json:"-"`              // when its site was told; zero: not yet
	Ended  time.Time    `json:"-"`              // zero: not yet
}

// judge sets Troubles, the gravest first, from the noted troubles and from the robot's row. Pages,
// commands, the API and metrics all show these.
func (r *Robot) judge(noted []Trouble) {
	r.Troubles = nil
	if r.Joined.IsZero() || !r.Revoked.IsZero() {
		return
	}
	r.Troubles = slices.DeleteFunc(slices.Clone(noted), func(t Trouble) bool { return t.Kind == wire.TroubleSilent }) // this one is noted late, for mails to the site only
	add := func(is bool, kind wire.Trouble, since time.Time, detail string) {
		if is {
			r.Troubles = append(r.Troubles, Trouble{Robot: r.Name, Kind: kind, Since: since, Detail: detail})
		}
	}
	if r.Subscribed && !r.Lapsed.IsZero() {
		add(true, wire.TroubleSilent, r.Seen, "its hosts were handed on")
	} else {
		add(!r.silent.IsZero(), wire.TroubleSilent, r.silent, "")
	}
	add(r.keyTrouble != "", wire.TroubleKey, time.Time{}, r.keyTrouble)
	add(r.Behind > 0, wire.TroubleOld, time.Time{}, fmt.Sprintf("it should run release %d", r.Behind))
	order := wire.Troubles()
	slices.SortStableFunc(r.Troubles, func(a, b Trouble) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
}

// Has reports whether the robot has a trouble of the kind.
func (r *Robot) Has(kind wire.Trouble) bool {
	return slices.ContainsFunc(r.Troubles, func(t Trouble) bool { return t.Kind == kind })
}

// clockTrouble returns the trouble of a wrong clock, or nothing if the clock is right.
func clockTrouble(c *wire.Clock) map[wire.Trouble]string {
	switch off := c.Wrong(); {
	case off > 0:
		return map[wire.Trouble]string{wire.TroubleClock: fmt.Sprintf("%v ahead of the service's: its pages bear times that are as much too late", off)}
	case off < 0:
		return map[wire.Trouble]string{wire.TroubleClock: fmt.Sprintf("%v behind the service's: its pages bear times that are as much too early", -off)}
	}
	return nil
}

// noted returns, by robot, the stored troubles that have not ended.
func (r *Roster) noted(ctx context.Context) (map[string][]Trouble, error) {
	list, err := r.troubles(ctx, `WHERE ended = 0`)
	byRobot := make(map[string][]Trouble)
	for _, t := range list {
		byRobot[t.Robot] = append(byRobot[t.Robot], t)
	}
	return byRobot, err
}
