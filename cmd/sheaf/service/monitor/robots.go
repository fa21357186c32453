package monitor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sheaf/internal/metrics"
	"sheaf/manager"
	"sheaf/manager/roster"
)

const (
	// mostRobots is how many robots have metrics of their own. Those that are silent come first.
	mostRobots = 200
	// mostHosts is how far hosts that wait are counted.
	mostHosts = 10_000
	// silentFor is how long a robot may be unheard of. Robots at work ask every few minutes.
	silentFor = 2 * time.Hour
)

// robotState says what a robot does, in one word.
func robotState(p roster.Presence, now time.Time) string {
	switch {
	case !p.Joined:
		return "out" // has not joined, or was revoked
	case p.Lapsed || now.Sub(p.Seen) > silentFor:
		return "silent"
	case p.Paused:
		return "paused"
	}
	return "working"
}

// Manager gives the robots, and the hosts that wait.
func Manager(m *manager.Manager) metrics.Source {
	return metrics.Source{Name: "manager", Ask: func(ctx context.Context, out *metrics.Out) error {
		robots, err := m.Roster.Presences(ctx)
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

// addRobots adds the numbers of robots by state, and the ages of the robots that have joined, up to
// mostRobots of them.
func addRobots(out *metrics.Out, robots []roster.Presence, now time.Time) {
	states := map[string]int{"out": 0, "silent": 0, "paused": 0, "working": 0}
	var joined []roster.Presence
	for _, p := range robots {
		states[robotState(p, now)]++
		if p.Joined {
			joined = append(joined, p)
		}
	}
	for state, n := range states {
		out.Gauge("robots", "Robots by state. A robot is silent if it was not heard of for two hours, and out if it has not joined or was revoked.", float64(n), "state", state)
	}
	silent := func(p roster.Presence) int { return int(1 - metrics.Truth(robotState(p, now) == "silent")) }
	slices.SortStableFunc(joined, func(a, b roster.Presence) int { return cmp.Compare(silent(a), silent(b)) })
	for _, p := range joined[:min(len(joined), mostRobots)] {
		out.Gauge("robot_unheard_seconds", "Time since the robot was last heard of, to the minute. At most 200 robots are told, silent ones first.", age(now, p.Seen), "robot", p.Name)
	}
}
