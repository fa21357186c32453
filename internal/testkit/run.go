package testkit

import (
	"context"
	"os"
	"os/exec"
	"testing"
)

// Run runs a program in dir, with dir as its HOME, and returns its output. The test fails if the
// program fails or takes longer than Patience. It is skipped if the program is missing.
func Run(t testing.TB, dir, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, Tool(t, program), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}
