package config

import (
	"fmt"
	"slices"
)

// Rule is the criterion for choosing known pages if not all can be visited.
type Rule string

// Rules.
const (
	Optimal    Rule = "optimal" // as many copies as possible are up to date
	SquareRoot Rule = "sqrt"    // in proportion to the square roots of the rates of change
	Paper      Rule = "paper"   // by NextVisits
	All        Rule = "all"     // every page, however long that takes
)

// Check returns an error if there is no such rule.
func (r Rule) Check() error {
	if !slices.Contains([]Rule{Optimal, SquareRoot, Paper, All}, r) {
		return fmt.Errorf("%q is not one of optimal, sqrt, paper, all", r)
	}
	return nil
}
