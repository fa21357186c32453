package levelling

import (
	"math"
	"slices"
	"time"

	"sheaf/internal/wire"
	"sheaf/manager/balance"
)

// Large is a host that is too large for the window of any robot (paper 001, 6.1).
type Large struct {
	Host  string  `json:"host"`
	Least float64 `json:"least_ms"` // cost at the robot where it costs least
	Parts int     `json:"parts"`    // number of parts, by the hash of the URL, that would fit
}

// large returns the hosts that no robot can collect within the window.
func (s *snapshot) large(window time.Duration) []Large {
	if window <= 0 {
		return nil
	}
	ms := float64(window.Milliseconds())
	var list []Large
	for j, host := range s.hosts {
		if at := s.at[j]; at >= 0 && s.wholeCost(at, j) <= ms {
			continue
		}
		if parts := balance.Split(s.wholeCost, len(s.robots), j, ms, wire.MaxShares); parts > 1 {
			least := math.Inf(1)
			for i := range s.robots {
				least = min(least, s.wholeCost(i, j))
			}
			list = append(list, Large{host, least, parts})
		}
	}
	return list
}

// splits returns the new number of parts for the hosts whose number changes: hosts that are too
// large for one robot's window, and hosts for which fewer parts than now are clearly enough.
func (s *snapshot) splits(large []Large, windowMS float64) map[string]int {
	const slack = 1.25 // keeps a host near the limit from being split and joined again and again
	parts := map[string]int{}
	for _, l := range large {
		parts[l.Host] = min(l.Parts, s.able)
	}
	for j, host := range s.hosts {
		if s.parts[j] < 2 {
			continue
		}
		dearer := func(i, j int) float64 { return slack * s.wholeCost(i, j) }
		if n := balance.Split(dearer, s.able, j, windowMS, s.parts[j]); n >= s.parts[j] {
			parts[host] = max(parts[host], s.parts[j])
		} else {
			parts[host] = max(parts[host], n)
		}
	}
	for host, n := range parts {
		if j, ok := slices.BinarySearch(s.hosts, host); ok && s.parts[j] == n {
			delete(parts, host)
		}
	}
	return parts
}
