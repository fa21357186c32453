package service

import (
	"testing"

	"sheaf/internal/lease/etcdtest"
	"sheaf/internal/testkit"
)

func TestMain(m *testing.M) {
	etcdtest.Main()
	testkit.InMemory(m)
}
