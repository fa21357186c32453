package records

import "fmt"

// ParamError says which parameter of a query is wrong, and why.
type ParamError struct {
	Name  string
	Value string
	Why   string
}

func (e *ParamError) Error() string {
	return fmt.Sprintf("%s=%.200q: %s", e.Name, e.Value, e.Why)
}
