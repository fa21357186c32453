package balance

import "math"

// Grouped joins hosts that must go to one robot, such as the hosts of one address, into groups.
// group names the group of host j. It returns the costs of the groups, numbered in the order of
// their first hosts, and the group number of each host.
func Grouped(robots, hosts int, cost Func, group func(j int) string) (c *Costs, of []int, err error) {
	number := make(map[string]int)
	of = make([]int, hosts)
	var members [][]int
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
	c, err = NewCosts(robots, len(members), func(i, n int) float64 {
		sum := 0.0
		for _, j := range members[n] {
			sum += cost(i, j)
		}
		return sum
	})
	return c, of, err
}

// Split returns into how many parts, by the hash of the URL, host j is to be split among robots
// so that each part fits into the window (paper 001, 6.1). It returns 1 if the host fits whole or
// the window is not known, and at most most. The parts together keep the host's interval: each
// robot waits as many intervals as there are parts.
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
