package monitor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sheaf/internal/metrics"
	"sheaf/internal/wire"
	"sheaf/manager"
	"sheaf/manager/roster"
	"sheaf/ui/board"
)

const (
	// mostRobots is how many robots have metrics of their own. Silent robots come first.
	mostRobots = 200
	// mostHosts is the number up to which waiting hosts are counted.
	mostHosts = 10_000
)

// robotState says what a robot does, in one word.
func robotState(r *roster.Robot) string {
	switch {
	case r.Joined.IsZero() || !r.Revoked.IsZero() || !r.Subscribed:
		return "out"
	case r.Has(wire.TroubleSilent):
		return "silent"
	case r.Paused:
		return "paused"
	}
	return "working"
}

// Wrong gives the numbers of present failures, by kind.
func Wrong(list func(context.Context) ([]board.Failure, error)) metrics.Source {
	return asking("wrong", list, func(out *metrics.Out, all []board.Failure) {
		count := make(map[string]int)
		for _, f := range all {
			count[f.Kind]++
		}
		for _, kind := range board.Kinds() {
			out.Gauge("wrong", "What is wrong now, as the board and sheaf wrong list it, by kind. Each process tells what it can by its roles.", float64(count[kind]), "kind", kind)
		}
	})
}

// Manager gives the numbers of robots and waiting hosts, and when robots were heard of.
func Manager(m *manager.Manager) metrics.Source {
	return metrics.Source{Name: "manager", Ask: func(ctx context.Context, out *metrics.Out) error {
		robots, err := m.Roster.Summaries(ctx)
		if err != nil {
			return err
		}
		pending, waiting, err := m.Hosts.Count(ctx, mostHosts)
		if err != nil {
			return err
		}
		addRobots(out, robots, time.Now())
		const help = "Hosts that wait for an operator's decision, and accepted ones that wait for a robot. Counted up to 10000."
		out.Gauge("hosts_waiting", help, float64(pending), "for", "decision")
		out.Gauge("hosts_waiting", help, float64(waiting), "for", "robot")
		return nil
	}}
}

// addRobots adds the numbers of robots by state. For up to mostRobots robots that have joined it
// also adds how long ago each was heard of.
func addRobots(out *metrics.Out, robots []roster.Robot, now time.Time) {
	states := map[string]int{"out": 0, "silent": 0, "paused": 0, "working": 0}
	var joined []*roster.Robot
	for i := range robots {
		r := &robots[i]
		states[robotState(r)]++
		if !r.Joined.IsZero() && r.Revoked.IsZero() {
			joined = append(joined, r)
		}
	}
	for state, n := range states {
		out.Gauge("robots", "Robots by state. A robot is silent if its heartbeats stay away, and out if it has not joined, has left or was revoked.", float64(n), "state", state)
	}
	silent := func(r *roster.Robot) int { return int(1 - metrics.Truth(r.Has(wire.TroubleSilent))) }
	slices.SortStableFunc(joined, func(a, b *roster.Robot) int { return cmp.Compare(silent(a), silent(b)) })
	for _, r := range joined[:min(len(joined), mostRobots)] {
		out.Gauge("robot_unheard_seconds", "Time since the robot was last heard of, to the minute. At most 200 robots are told, silent ones first.", age(now, r.Seen), "robot", r.Name)
	}
}
