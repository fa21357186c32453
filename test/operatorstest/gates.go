// Package operatorstest has operators' gates for tests of packages that mount routes behind a gate.
package operatorstest

import (
	"net/http"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
)

// Open passes every request on.
func Open(_ operators.Role, _ audit.Act, next http.Handler) http.Handler { return next }

// Shut answers every request with 404.
func Shut(operators.Role, audit.Act, http.Handler) http.Handler { return http.NotFoundHandler() }
