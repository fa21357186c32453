package balance

import "math"

// Grouped joins hosts that have to go to one robot, those of one address, into
// one: group[j] names host j's. It gives the costs of the groups, numbered in the
// order in which they first come, and each host's group by number.
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

// Split says into how many parts, by the hash of the URL, a host is to be divided
// among robots so that each part fits into the window: 1 where it fits whole, and
// never more than most (paper 001, 6.1). The interval between two pages of one part is the
// host's times the number of parts, so that the host sees the allowed rate and no more.
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
