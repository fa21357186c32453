// Package install does what a partner site does: it runs the operator's command, on a machine with
// almost no programs, against a running service.
package install

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"aead.dev/minisign"

	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/manager/roster"
)

// operator runs a service and its commands.
type operator struct {
	t       *testing.T
	program string
	data    string
	url     string
}

// release builds a robotd of a version. It is without C, as releases are, and with paths, because a
// program without them does not contain the version.
func release(t *testing.T, version string) string {
	t.Helper()
	return testkit.Build(t, "sheaf/cmd/robotd", "-trimpath=false", "-ldflags", "-s -w -X sheaf/robotd.Version="+version)
}

// newKey makes a release key without a password, as minisign -W does. TestReleaseKey of cmd/sheaf
// has one with a password, which costs seconds each time that it is read.
func newKey(t *testing.T) (path string) {
	t.Helper()
	_, private, err := minisign.GenerateKey(nil)
	testkit.Must(t, err)
	text, err := private.MarshalText()
	testkit.Must(t, err)
	path = filepath.Join(t.TempDir(), "release.key")
	testkit.Must(t, os.WriteFile(path, text, 0o600))
	return path
}

func serve(t *testing.T) *operator {
	t.Helper()
	o := &operator{t: t, program: testkit.Build(t, "sheaf/cmd/sheaf"), data: t.TempDir()}
	service := testkit.Start(t, "", exec.Command(o.program, "serve", "--data", o.data, "--set", "http.listen=127.0.0.1:0", "--set", "metrics=",
		"--set", "download.listen=", "--set", "drop.listen=", "--set", "publish.window=always", "--set", "poll=100ms", "--set", "uploads.full=100"))
	o.url = address(t, service)
	return o
}

// address waits until a service has told its address, and returns it.
func address(t *testing.T, service *testkit.Process) (url string) {
	t.Helper()
	service.Ready(t, func() error {
		text, err := os.ReadFile(service.Log)
		_, after, ok := strings.Cut(string(text), "http=")
		url, _, _ = strings.Cut(after, " ")
		if !ok {
			return cmp.Or(err, errors.New("it has not told its address"))
		}
		return nil
	})
	return url
}

// sheaf runs an operators' command.
func (o *operator) sheaf(args ...string) string {
	o.t.Helper()
	cmd := exec.Command(o.program, append(args, "--url", o.url, "--data", o.data)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("sheaf %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// robot returns what the service knows of a robot.
func (o *operator) robot(name string) roster.Robot {
	o.t.Helper()
	var answer manager.RobotsResponse
	if err := json.Unmarshal([]byte(o.sheaf("robot", "ls", "--json")), &answer); err != nil {
		o.t.Fatal(err)
	}
	for _, r := range answer.Robots {
		if r.Name == name {
			return r
		}
	}
	return roster.Robot{}
}

// until waits for a condition.
func (o *operator) until(what string, holds func() bool) {
	o.t.Helper()
	testkit.Until(o.t, what, holds)
}

// TestPartnerSite goes through a robot's life on a bare machine: installed by the printed line,
// installed again, upgraded by itself and by hand, removed.
func TestPartnerSite(t *testing.T) {
	testkit.Slow(t)
	r := newRoot(t)
	o := serve(t)
	t.Setenv("CGO_ENABLED", "0") // of the robots' programs
	key := newKey(t)
	if line := o.sheaf("robot", "add", "early"); !strings.HasPrefix(line, "robotd join "+o.url+" ") {
		t.Errorf("without a release, robot add prints %q", line)
	}
	o.sheaf("release", "key", key)
	o.sheaf("release", "publish", release(t, "9.1.0"), "--key", key)

	line, _, _ := strings.Cut(o.sheaf("robot", "add", "waseda", "--contact", "mailto:robots@waseda.ac.jp"), "\n")
	line = "cd /root && " + line
	if out, err := r.run("sh", "-c", strings.Replace(line, "--release 1:", "--release 1:0", 1)); err == nil || !strings.Contains(out, "not the one that the command names") {
		t.Errorf("a release with another digest: %v\n%s", err, out)
	}
	if r.exists("usr/local/lib/sheaf-robot") || r.exists("var/lib/sheaf-robot") {
		t.Error("a refused installation leaves files")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the robot's log:\n%s", r.log())
		}
		r.run("sh", "-c", "sheaf-robot stop")
	})
	r.must("sh", "-c", line)
	o.until("the robot reports its release", func() bool { return strings.Contains(o.sheaf("release", "ls"), "100 %       1 ") })
	first := supervisor(r)
	checkUser(t, r, first)

	out := r.must("sh", "-c", line)
	if !strings.Contains(out, "joined already") || !strings.Contains(out, "installed already") {
		t.Errorf("the same line again says\n%s", out)
	}
	if again := supervisor(r); again == first || again == 0 {
		t.Errorf("after a second installation the supervisor is process %d, before it was %d", again, first)
	}

	o.sheaf("release", "publish", release(t, "9.2.0"), "--key", key, "--soak", "0s")
	r.must("sheaf-robot", "restart") // reports at its start; else once in a poll
	o.until("the robot upgrades itself", func() bool { return o.robot("waseda").Version == "9.2.0" })
	o.until("after its only robot has reported in, the release is for everybody", func() bool {
		return strings.Count(o.sheaf("release", "ls"), "100 %") == 2
	})
	if out := r.must("sheaf-robot", "upgrade"); !strings.Contains(out, "release 2, version 9.2.0, is installed") {
		t.Errorf("upgrade by hand says\n%s", out)
	}
	if out := r.must("/usr/local/lib/sheaf-robot/robotd", "--version"); !strings.Contains(out, "9.2.0") {
		t.Errorf("installed is %s", out)
	}

	// A release that works except for its reports: the manager refuses a version of that length.
	mute := release(t, strings.Repeat("9", 200))
	settings, err := os.ReadFile(r.path("etc/sheaf-robot/robotd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r.write("etc/sheaf-robot/robotd.yaml", string(settings)+"update: {trial: 1s}\n", 0o644)
	o.sheaf("release", "publish", mute, "--version", "9.3.0", "--key", key)
	r.must("sheaf-robot", "restart")
	o.until("the robot puts a program back that cannot report, and the roll-out stops", func() bool {
		return strings.Contains(o.sheaf("release", "ls"), "1 of 1 robots put it back")
	})
	if v := o.robot("waseda").Version; v != "9.2.0" {
		t.Errorf("after that it runs version %s", v)
	}

	o.until("the robot takes part", func() bool { return o.robot("waseda").Subscribed })
	r.must("sheaf-robot", "remove", "--purge")
	if o.robot("waseda").Subscribed {
		t.Error("a removed robot keeps its place")
	}
	for _, left := range []string{"usr/local/lib/sheaf-robot", "usr/local/bin/sheaf-robot", "etc/sheaf-robot", "var/lib/sheaf-robot", "etc/init.d/sheaf-robot"} {
		if r.exists(left) {
			t.Errorf("removal leaves %s", left)
		}
	}
	if passwd, _ := os.ReadFile(r.path("etc/passwd")); strings.Contains(string(passwd), "sheaf-robot") {
		t.Error("removal leaves the user")
	}
}

// supervisor returns the supervisor's process, or 0 if there is none.
func supervisor(r *root) int {
	text, err := os.ReadFile(r.path("var/lib/sheaf-robot/data/update/supervisor.pid"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// checkUser checks that the robot runs as a user of its own, which owns its secrets and cannot
// change what the administrator installed.
func checkUser(t *testing.T, r *root, pid int) {
	t.Helper()
	process, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatal(err)
	}
	uid := process.Sys().(*syscall.Stat_t).Uid
	if uid == 0 {
		t.Error("the robot runs as root")
	}
	for name, want := range map[string]struct {
		uid  uint32
		mode os.FileMode
	}{
		"var/lib/sheaf-robot/data/robot.json": {uid, 0o600},
		"var/lib/sheaf-robot/data/robot.key":  {uid, 0o600},
		"var/lib/sheaf-robot/data":            {uid, 0o700 | os.ModeDir},
		"usr/local/lib/sheaf-robot/robotd":    {0, 0o755},
		"etc/sheaf-robot/robotd.yaml":         {0, 0o644},
	} {
		info, err := os.Stat(r.path(name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != want.uid || info.Mode() != want.mode {
			t.Errorf("%s: owner %d, mode %v; want %d, %v", name, got, info.Mode(), want.uid, want.mode)
		}
	}
}
