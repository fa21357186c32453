package files_test

import (
	"testing"

	"sheaf/internal/testkit"
)

func TestMain(m *testing.M) { testkit.InMemory(m) }
