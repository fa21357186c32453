package manager

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
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
	// PerDomain is how many hosts of one registered domain are accepted of those that robots find; what comes
	// then is Pending: a service that gives each of its users a host is not to flood the lists. 0: any number.
	PerDomain int
}

// registered gives the domain that somebody registered and that the host is in, by the public
// suffix list: waseda.ac.jp of www.waseda.ac.jp. Of an address, and of a suffix itself, it is the name.
func registered(host string) string {
	name := withoutPort(host)
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return name
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return domain
	}
	return name
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
