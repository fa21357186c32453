package urlindex_test

import (
	"os"
	"strconv"
	"testing"

	"sheaf/internal/testkit"
)

// rounds returns SHEAF_TEST_ROUNDS, or a small default.
func rounds() int {
	if testing.Short() {
		return 1
	}
	return fromEnv("SHEAF_TEST_ROUNDS", testkit.Size(1, 3))
}

// fromEnv returns a positive number from the environment, or the default.
func fromEnv(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}
