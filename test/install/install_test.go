// Package install tries what a partner site does: the command that the operator sends,
// on a machine that has next to nothing, against a running service.
package install

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sheaf/cmd/sheaf/service"
	"sheaf/manager"
)

// patience is for what takes seconds on an idle machine.
const patience = 2 * time.Minute

// operator runs a service, and speaks to it by its commands.
type operator struct {
	t    *testing.T
	bin  string // folder with sheaf, robotd-1 and robotd-2
	data string
	url  string
}

// build makes a program; a robotd without C, as releases are, and in a version that it says of itself.
func build(t *testing.T, out, pkg, version string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", out, pkg)
	if version != "" {
		cmd.Args = append(cmd.Args[:2:2], append([]string{"-ldflags", "-X sheaf/robotd.Version=" + version}, cmd.Args[2:]...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, text)
	}
}

func serve(t *testing.T) *operator {
	t.Helper()
	o := &operator{t: t, bin: t.TempDir(), data: t.TempDir()}
	build(t, o.path("sheaf"), "sheaf/cmd/sheaf", "")
	for _, v := range []string{"1", "2"} {
		build(t, o.path("robotd-"+v), "sheaf/cmd/robotd", "9."+v+".0")
	}
	log := o.path("log")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(o.path("sheaf"), "serve", "--data", o.data, "--set", "http.listen=127.0.0.1:0", "--set", "download.listen=", "--set", "drop.listen=", "--set", "publish.window=always")
	cmd.Stderr = f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		f.Close()
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("the service's log:\n%s", text)
		}
	})
	o.until("the service serves", func() bool {
		text, _ := os.ReadFile(log)
		_, after, ok := strings.Cut(string(text), "http=")
		if ok {
			o.url, _, _ = strings.Cut(after, " ")
		}
		return ok
	})
	if _, err := service.ReadToken(o.data); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *operator) path(name string) string { return filepath.Join(o.bin, name) }

// sheaf runs an operators' command.
func (o *operator) sheaf(args ...string) string {
	o.t.Helper()
	cmd := exec.Command(o.path("sheaf"), append(args, "--url", o.url, "--data", o.data)...)
	cmd.Env = append(os.Environ(), "SHEAF_RELEASE_PASSWORD=correct horse")
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("sheaf %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// robot is what the service knows of a robot.
func (o *operator) robot(name string) manager.Robot {
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
	return manager.Robot{}
}

func (o *operator) until(what string, ok func() bool) {
	o.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			o.t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// TestPartnerSite walks a robot's life on a bare machine: installed by the printed
// line, installed again, upgraded by itself and by hand, removed.
func TestPartnerSite(t *testing.T) {
	r := newRoot(t)
	o := serve(t)
	if line := o.sheaf("robot", "add", "early"); !strings.HasPrefix(line, "robotd join "+o.url+" ") {
		t.Errorf("without a release, robot add prints %q", line)
	}
	o.sheaf("release", "key", o.path("release.key"))
	o.sheaf("release", "publish", o.path("robotd-1"), "--key", o.path("release.key"))

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

	o.sheaf("release", "publish", o.path("robotd-2"), "--key", o.path("release.key"), "--soak", "0s")
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

	// One that works but for its reports: the manager refuses a version of that length.
	build(t, o.path("robotd-3"), "sheaf/cmd/robotd", strings.Repeat("9", 200))
	settings, err := os.ReadFile(r.path("etc/sheaf-robot/robotd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r.write("etc/sheaf-robot/robotd.yaml", string(settings)+"update: {trial: 5s}\n", 0o644)
	o.sheaf("release", "publish", o.path("robotd-3"), "--version", "9.3.0", "--key", o.path("release.key"))
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

// supervisor is the supervisor's process, 0 where there is none.
func supervisor(r *root) int {
	text, err := os.ReadFile(r.path("var/lib/sheaf-robot/data/update/supervisor.pid"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// checkUser checks that the robot runs as a user of its own, who owns its secrets and
// cannot change what the administrator installed.
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
