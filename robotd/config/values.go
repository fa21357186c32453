package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
)

// SplitList splits a text at blanks and commas.
func SplitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// ParseAddresses parses the addresses that are set for a host: IP addresses, with or without a
// port, with blanks between.
func ParseAddresses(text string) (all []netip.AddrPort, err error) {
	for one := range strings.FieldsSeq(text) {
		addr, err := netip.ParseAddrPort(one)
		if err != nil {
			var ip netip.Addr
			ip, err = netip.ParseAddr(one)
			addr = netip.AddrPortFrom(ip, 0)
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an IP address nor one with a port", one)
		}
		all = append(all, addr)
	}
	if len(all) == 0 {
		return nil, errors.New("no address")
	}
	return all, nil
}

// Ranges returns a Group function for a gate from ranges of addresses such as "192.0.2.0/28". Each
// range counts as one address: the machines of a hosting company behind one line, or an IPv6
// network of one server. The narrowest range that contains an address applies.
func Ranges(texts []string) (func(netip.Addr) netip.Addr, error) {
	ranges := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a range of addresses such as 192.0.2.0/28", text)
		}
		ranges = append(ranges, p.Masked())
	}
	slices.SortStableFunc(ranges, func(a, b netip.Prefix) int { return b.Bits() - a.Bits() })
	return func(a netip.Addr) netip.Addr {
		for _, p := range ranges {
			if p.Contains(a) {
				return p.Addr()
			}
		}
		return a
	}, nil
}

// Rule is the criterion for choosing known pages if not all can be visited.
type Rule string

// The rules for Revisit.By.
const (
	Optimal    Rule = "optimal" // as many copies as possible are up to date
	SquareRoot Rule = "sqrt"    // in proportion to the square roots of the rates of change
	Paper      Rule = "paper"   // by NextVisits
	All        Rule = "all"     // every page, however long that takes
)

// TargetState is the state of a way to the service: a target of batches, or a URL of the manager.
type TargetState struct {
	Name     string    `json:"target"`
	Failures int       `json:"failures"`          // successive ones
	Again    time.Time `json:"again,omitzero"`    // not used before; zero or past: in use
	Error    string    `json:"error,omitempty"`   // of the last failure
	Failed   time.Time `json:"failed,omitzero"`   // time of the last failure; zero: none since the start
	Answered time.Time `json:"answered,omitzero"` // time of the last batch or answer
}
