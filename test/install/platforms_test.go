package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"sheaf/internal/testkit"
)

// The robot compiles for each platform that install-robot.sh asks for, also with 32-bit words.
func TestRobotCompilesForEveryPlatform(t *testing.T) {
	testkit.Long(t)
	script, err := os.ReadFile(filepath.Join(testkit.Root(t), "deploy/install-robot.sh"))
	testkit.Must(t, err)
	platforms := regexp.MustCompile(`echo (linux)-([a-z0-9]+) ;;`).FindAllStringSubmatch(string(script), -1)
	if len(platforms) < 7 {
		t.Fatalf("install-robot.sh has the platforms %q", platforms)
	}
	for _, p := range platforms {
		build := exec.Command(testkit.Tool(t, "go"), "build", "-o", os.DevNull, "sheaf/cmd/robotd")
		build.Dir = testkit.Root(t)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p[1], "GOARCH="+p[2])
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("%s-%s: %v\n%s", p[1], p[2], err, out)
		}
	}
}
