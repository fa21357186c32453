package hosts

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"sheaf/internal/peer"
)

// State says whether a host is collected.
type State string

// States of a host.
const (
	Accepted State = "accepted" // it is collected
	Pending  State = "pending"  // a robot found it; an operator has to decide
	Refused  State = "refused"  // a robot found it outside the policy, or an operator removed or refused it
)

// Policy says what becomes of a host that a robot finds. A domain in a list stands for itself and
// for all names below it: "jp", "ac.jp", "example.com". "*" stands for every host. Hosts that are
// not of the public Internet (peer.IsPublicHost) are refused, unless Accept names them or a domain
// of theirs. So are public suffixes, such as jp and co.jp: nobody has registered them.
type Policy struct {
	Accept    []string `mapstructure:"suffixes"`
	Refuse    []string `mapstructure:"refuse"`                       // takes precedence over Accept; a host in neither list is Pending
	PerDomain int      `mapstructure:"per_domain" want:"at least 0"` // limits the accepted hosts of one registered domain; further ones are Pending. 0: no limit
	PerRobot  int      `mapstructure:"per_robot" want:"at least 0"`  // limits the hosts, in any state, that one robot may enter in 24 hours; further ones are not entered. 0: no limit
	PerDay    int      `mapstructure:"per_day" want:"at least 0"`    // the same of all robots together
	Ports     []int    `mapstructure:"ports"`                        // at which robots may enter hosts; a host at another is Pending, unless it is refused. Empty: any
}

// Registered returns the registered domain of a host by the public suffix list: waseda.ac.jp for
// www.waseda.ac.jp. For an IP address or a public suffix it returns the name itself.
func Registered(host string) string {
	name := withoutPort(host)
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return name
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return domain
	}
	return name
}

// Judge returns the state of a new host, whose name has the form of wire.HostName.
func (p Policy) Judge(host string) State {
	name := withoutPort(host)
	switch {
	case within(name, p.Refuse), isSuffix(name):
		return Refused
	case !peer.IsPublicHost(name) && !within(name, slices.DeleteFunc(slices.Clone(p.Accept), func(d string) bool { return d == "*" })):
		return Refused
	case !p.allowsPort(strings.TrimPrefix(host[len(name):], ":")):
		return Pending
	case within(name, p.Accept):
		return Accepted
	default:
		return Pending
	}
}

// isSuffix reports whether a name is a suffix below which a registry gives names away.
func isSuffix(name string) bool {
	suffix, registry := publicsuffix.PublicSuffix(name)
	return registry && suffix == name
}

// allowsPort reports whether robots may enter hosts at a port; "" is the port of the host's scheme.
func (p Policy) allowsPort(port string) bool {
	n, err := strconv.Atoi(port)
	return port == "" || len(p.Ports) == 0 || err == nil && slices.Contains(p.Ports, n)
}

// within reports whether the name is one of the domains or below one.
func within(name string, domains []string) bool {
	for _, d := range domains {
		d = strings.ToLower(strings.Trim(d, "."))
		if d == "*" || d != "" && (name == d || strings.HasSuffix(name, "."+d)) {
			return true
		}
	}
	return false
}

// withoutPort returns a host's name without its port. IPv6 addresses keep their brackets.
func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		return host[:i]
	}
	return host
}
