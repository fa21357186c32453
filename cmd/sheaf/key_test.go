package main

import (
	"path/filepath"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/robotd"
)

// An operator rotates the service's key with commands alone, and is told what to do next and which
// robots have not followed.
func TestKeyCommands(t *testing.T) {
	t.Parallel()
	testkit.Slow(t)
	c := startService(t, nil)
	token := strings.Fields(c.run(nil, "robot", "add", "waseda"))[3]
	_, err := robotd.Join(t.Context(), c.url, token, filepath.Join(t.TempDir(), "robot"))
	testkit.Must(t, err)
	c.run([]string{"service 1", "signs", "operator token", c.data}, "key", "ls")
	if _, err := c.try("key", "use"); err == nil || !strings.Contains(err.Error(), "sheaf key rotate") {
		t.Errorf("used a key that there is not: %v", err)
	}
	c.run([]string{"service 2", "next", "sheaf key use", "waseda", "key 1 of 2"}, "key", "rotate")
	c.run([]string{"waseda: key: knows the service's key 1 of 2"}, "robot", "ls")
	if _, err := c.try("key", "use"); err == nil || !strings.Contains(err.Error(), "waseda") {
		t.Errorf("used a key that a robot does not know: %v", err)
	}
	c.run([]string{"former", "signs", "backup"}, "key", "use", "--leave")
	c.run([]string{"service 3", "waseda", "stolen", "robotd join"}, "key", "rotate", "--compromised")
	c.run([]string{"change", "key of the service"}, "audit")
}
