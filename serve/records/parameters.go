package records

import "fmt"

// ParamError says that a parameter is wrong.
type ParamError struct {
	Name  string
	Value string
	Why   string
}

func (e *ParamError) Error() string {
	return fmt.Sprintf("%s=%.200q: %s", e.Name, e.Value, e.Why)
}
