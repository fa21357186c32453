package quorum

import (
	"slices"
	"time"
)

// change is a change of the servers in two phases, made by the holder of the name serversName. Its
// methods must not be called concurrently.
//
//  1. L: from now on a majority of the earlier servers and a majority of the later servers are
//     needed. A client that holds a name by the earlier servers alone may hold it until its tokens
//     end, unless it gets the later servers' tokens, too.
//  2. When such tokens have ended, the later servers get all fencing tokens that the earlier ones
//     know, since they must give higher tokens.
//  3. L̄: from now on a majority of the later servers is enough.
//
// If a change breaks off after its first step, both majorities stay needed; the next change
// completes it.
type change struct {
	joint, final Config
	ttl          time.Duration

	step   changeStep
	acks   map[string]bool
	fences map[string]int64
	wait   time.Time
}

type changeStep int

const (
	installJoint changeStep = iota
	awaitTokens
	readFences
	writeFences
	installFinal
	changed
	overtaken // there is a later configuration
)

// newChange prepares a change of the servers. fence is the fencing token of the lease on
// serversName. The epochs are derived from fence, so two changes never have the same epochs.
func newChange(now Config, members []string, fence int64, ttl time.Duration) *change {
	c := &change{ttl: ttl, acks: make(map[string]bool), fences: make(map[string]int64)}
	members = slices.Clone(members)
	slices.Sort(members)
	members = slices.Compact(members)
	c.joint = Config{Epoch: 2 * fence, Members: now.Members, Next: members}
	if now.Next != nil { // an earlier change broke off
		c.joint.Next = now.Next
	}
	c.final = Config{Epoch: 2*fence + 1, Members: c.joint.Next}
	return c
}

// next returns the next request to a server. ok is false if there is no request now.
func (c *change) next(now time.Time, server string) (q request, ok bool) {
	if c.step == awaitTokens && !now.Before(c.wait) {
		c.to(readFences)
	}
	if c.acks[server] {
		return q, false
	}
	switch c.step {
	case installJoint, readFences:
		return request{Kind: kindTime, Config: c.joint}, true
	case writeFences:
		return request{Kind: kindRaise, Config: c.joint, Fences: c.fences}, true
	case installFinal:
		return request{Kind: kindTime, Config: c.final}, true
	}
	return q, false
}

func (c *change) to(step changeStep) {
	c.step = step
	clear(c.acks)
}

// heard counts answer r, and may begin a new step.
func (c *change) heard(now time.Time, server string, q request, r answer) {
	step := map[changeStep]string{installJoint: kindTime, readFences: kindTime, writeFences: kindRaise, installFinal: kindTime}[c.step]
	switch {
	case r.Config != nil && r.Config.Epoch > c.final.Epoch:
		c.step = overtaken
		return
	case q.Kind != step || (q.Config.Epoch == c.final.Epoch) != (c.step == installFinal) || r.Config != nil || r.Differs:
		return
	}
	c.acks[server] = true
	if c.step == readFences {
		for name, fence := range r.Fences {
			c.fences[name] = max(c.fences[name], fence)
		}
	}
	if !c.joint.quorum(func(server string) bool { return c.acks[server] }) {
		return
	}
	switch c.step {
	case installJoint:
		c.to(awaitTokens)
		c.wait = now.Add(c.ttl)
	case readFences:
		c.to(writeFences)
	case writeFences:
		c.to(installFinal)
	case installFinal:
		c.to(changed)
	}
}

// serversName is the name that a process holds while it changes the servers.
const serversName = "servers of the leases"
