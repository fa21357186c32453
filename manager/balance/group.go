package balance

import "math"

// Groups joins hosts that must go to one robot, such as the hosts of one address, into groups.
// group names the group of host j. It returns the group number of each host, and the hosts of each
// group. Groups are numbered in the order of their first hosts.
func Groups(hosts int, group func(j int) string) (of []int, members [][]int) {
	number := make(map[string]int)
	of = make([]int, hosts)
	for j := range hosts {
		name := group(j)
		n, ok := number[name]
		if !ok {
			n = len(members)
			number[name] = n
			members = append(members, nil)
		}
		of[j] = n
		members[n] = append(members[n], j)
	}
	return of, members
}

// Split returns into how many parts, by the hash of the URL, host j must be split among robots so
// that each part fits into the window (paper 001, 6.1). It returns 1 if the whole host fits or the
// window is not known, and never more than most or than robots. Together the parts keep the host's
// interval: with n parts, each robot waits n intervals between visits.
func Split(cost Func, robots, j int, windowMs float64, most int) int {
	least := math.Inf(1)
	for i := range robots {
		least = min(least, cost(i, j))
	}
	if !(windowMs > 0) || math.IsInf(least, 1) {
		return 1
	}
	return max(1, min(most, robots, int(math.Ceil(least/windowMs))))
}
