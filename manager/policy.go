package manager

import (
	"strings"
)

// State is what became of a host.
type State string

// States of a host.
const (
	Accepted State = "accepted" // is collected
	Pending  State = "pending"  // found by a robot; waits for an operator's word
	Refused  State = "refused"  // found by a robot outside the policy, or removed by an operator
)

// Policy says what becomes of a host that a robot finds. Both lists hold domains,
// which stand for themselves and all below: "jp", "ac.jp", "example.com"; "*" stands for
// every host. Refuse goes before Accept; what is in neither is Pending.
type Policy struct {
	Accept []string
	Refuse []string
}

// Judge gives the state of a new host, named as wire.HostName does.
func (p Policy) Judge(host string) State {
	name := withoutPort(host)
	switch {
	case within(name, p.Refuse):
		return Refused
	case within(name, p.Accept):
		return Accepted
	default:
		return Pending
	}
}

func within(name string, domains []string) bool {
	for _, d := range domains {
		d = strings.ToLower(strings.Trim(d, "."))
		if d == "*" || d != "" && (name == d || strings.HasSuffix(name, "."+d)) {
			return true
		}
	}
	return false
}

// withoutPort cuts the port off a host's name. The brackets of IPv6 stay.
func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		return host[:i]
	}
	return host
}
