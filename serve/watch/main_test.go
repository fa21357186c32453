package watch_test

import (
	"testing"

	"sheaf/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Waiting()
	testkit.InMemory(m)
}
