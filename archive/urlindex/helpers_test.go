package urlindex_test

import (
	"os"
	"strconv"
	"testing"

	"sheaf/internal/testkit"
)

// rounds is SHEAF_TEST_ROUNDS, or few.
func rounds() int {
	if testing.Short() {
		return 1
	}
	return fromEnv("SHEAF_TEST_ROUNDS", testkit.Size(1, 3))
}

// fromEnv is a positive number in the environment.
func fromEnv(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}
