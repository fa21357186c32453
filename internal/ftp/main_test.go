package ftp

import (
	"os"
	"testing"

	"sheaf/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Waiting()
	os.Exit(m.Run())
}
