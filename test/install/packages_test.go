package install

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"sheaf/internal/testkit"
)

// must runs a program of this machine, and returns its output.
func must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(testkit.Tool(t, program), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// TestPackages builds the packages and images twice, which must give the same bytes, installs each
// in a file system of its own, and runs the service that it brought.
func TestPackages(t *testing.T) {
	testkit.Long(t)
	builder := testkit.BuildModule(t, "deploy/packages")
	t.Setenv("GIT_CONFIG_COUNT", "1") // it asks git for the time of the commit, of a checkout that may be another user's
	t.Setenv("GIT_CONFIG_KEY_0", "safe.directory")
	t.Setenv("GIT_CONFIG_VALUE_0", testkit.Root(t))
	dist, again := t.TempDir(), t.TempDir()
	for _, dir := range []string{dist, again} {
		must(t, builder, "--source", testkit.Root(t), "--out", dir, "--version", "0.9.0", "--arch", runtime.GOARCH)
	}
	sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	testkit.Must(t, err)
	if second, err := os.ReadFile(filepath.Join(again, "SHA256SUMS")); err != nil || string(second) != string(sums) {
		t.Errorf("two builds differ (%v):\n%s\n%s", err, sums, second)
	}
	file := func(pattern string) string {
		found, err := filepath.Glob(filepath.Join(dist, pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		return found[0]
	}
	t.Run("deb", func(t *testing.T) {
		testDebs(t, file("sheaf_*.deb"), file("sheaf-robot_*.deb"))
	})
	t.Run("rpm", func(t *testing.T) {
		r := newRoot(t)
		must(t, "rpm", "--root", r.dir, "--initdb")
		must(t, "rpm", "--root", r.dir, "--install", "--nodeps", file("sheaf-0*.rpm"), file("sheaf-robot-0*.rpm")) // there is no shadow-utils in this root
		testPrograms(t, r)
		must(t, "rpm", "--root", r.dir, "--erase", "--nodeps", "sheaf", "sheaf-robot")
		if r.exists("usr/bin/sheaf") || r.exists("usr/bin/robotd") {
			t.Error("removal leaves programs")
		}
	})
	t.Run("image", func(t *testing.T) { testImages(t, file("sheaf-0*.oci.tar"), file("sheaf-robot-0*.oci.tar")) })
}

// testDebs installs the Debian packages, and removes them.
func testDebs(t *testing.T, service, robot string) {
	r := newRoot(t)
	for _, dir := range []string{"info", "updates", "triggers"} {
		testkit.Must(t, os.MkdirAll(r.path("var/lib/dpkg/"+dir), 0o755))
	}
	r.write("var/lib/dpkg/status", "", 0o644)
	dpkg := func(args ...string) string {
		return must(t, "dpkg", append([]string{"--root=" + r.dir, "--force-bad-path"}, args...)...)
	}
	r.write("usr/local/lib/sheaf-robot/robotd", "", 0o755) // as the install script leaves it
	out, err := exec.Command(testkit.Tool(t, "dpkg"), "--root="+r.dir, "--force-bad-path", "--install", robot).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "installed here already") {
		t.Errorf("beside the robot of the install script: %v\n%s", err, out)
	}
	testkit.Must(t, os.RemoveAll(r.path("usr/local/lib/sheaf-robot")))

	dpkg("--install", service, robot)
	testPrograms(t, r)
	for _, name := range []string{"basic", "network-online", "shutdown", "sysinit"} { // systemd's own, which the units name
		r.write("usr/lib/systemd/system/"+name+".target", "[Unit]\n", 0o644)
	}
	for _, unit := range []string{"sheaf.service", "sheaf@second.service", "sheaf-robot.service"} {
		must(t, "systemd-analyze", "--root="+r.dir, "--man=no", "verify", unit)
		out := must(t, "systemd-analyze", "security", "--offline=true", "--root="+r.dir, "--threshold=20", "--no-pager", unit) // of 100
		t.Log(out[strings.LastIndex(out, "→"):])
	}
	for _, name := range []string{"usr/share/man/man1/sheaf-serve.1.gz", "usr/share/man/man1/robotd-join.1.gz",
		"usr/share/bash-completion/completions/sheaf", "usr/share/doc/sheaf/examples/sheaf.yaml"} {
		if !r.exists(name) {
			t.Errorf("there is no /%s", name)
		}
	}
	checkDocuments(t, r)
	out, err = exec.Command("chroot", r.dir, "/usr/bin/robotd", "join", "http://127.0.0.1:1", "token", "--config", "/etc/sheaf-robot/robotd.yaml").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "contact") {
		t.Errorf("a robot without a contact: %v\n%s", err, out)
	}
	dpkg("--purge", "sheaf", "sheaf-robot")
	if r.exists("usr/bin/sheaf") || r.exists("etc/sheaf-robot/robotd.yaml") {
		t.Error("removal leaves programs or settings")
	}
	if !r.exists("var/lib/sheaf/sheaf.db") {
		t.Error("removal deletes data")
	}
}

// checkDocuments looks up all files to which the operators' documents lead.
func checkDocuments(t *testing.T, r *root) {
	t.Helper()
	link := regexp.MustCompile(`\]\(([^):#]+)[^)]*\)`)
	for _, name := range []string{"docs/operators.md", "docs/operators.ja.md", "docs/runbook.md"} {
		path := filepath.Join("usr/share/doc/sheaf", name)
		text, err := os.ReadFile(r.path(path))
		testkit.Must(t, err)
		for _, to := range link.FindAllStringSubmatch(string(text), -1) {
			if leads := filepath.Join(filepath.Dir(path), to[1]); !r.exists(leads) {
				t.Errorf("/%s leads to /%s, which is not there", path, leads)
			}
		}
	}
	for _, name := range []string{"deploy/prometheus/rules.yml", "deploy/grafana/sheaf.json"} {
		if !r.exists("usr/share/doc/sheaf/" + name) {
			t.Errorf("there is no %s", name)
		}
	}
}

// testPrograms runs what a package has installed: the service as its user, with its settings file.
func testPrograms(t *testing.T, r *root) {
	t.Helper()
	for _, program := range []string{"sheaf", "robotd"} {
		if out := r.must(program, "--version"); !strings.Contains(out, "0.9.0") {
			t.Errorf("%s says %s", program, out)
		}
	}
	listen := testkit.Addresses(t, 1)[0]
	r.must("sheaf", "setup", "--address", "http://archive.example.jp:8080", "--contact", "ops@waseda.ac.jp", "--listen", listen, "--release-key", "none")
	id := func(flag string) string { return strings.TrimSpace(r.must("id", flag, "sheaf")) }
	alive(t, r.dir, id("-u")+":"+id("-g"), nil, []string{"/usr/bin/sheaf", "serve", "--config", "/etc/sheaf/sheaf.yaml"}, func() {
		if out := r.must("sheaf", "robot", "add", "waseda"); !strings.HasPrefix(out, "robotd join http://archive.example.jp:8080 ") {
			t.Errorf("sheaf robot add says %s", out)
		}
		r.write("etc/sheaf/environment", "# secrets\nSHEAF_SITE_ABOUT='of the environment file'\n", 0o600)
		if out := r.must("sheaf", "doctor"); !strings.Contains(out, "of the environment file") || !strings.Contains(out, "of the file /etc/sheaf/sheaf.yaml and the variables SHEAF_SITE_ABOUT") {
			t.Errorf("sheaf doctor says %s", out)
		}
	})
	info, err := os.Stat(r.path("var/lib/sheaf"))
	testkit.Must(t, err)
	if info.Mode().Perm() != 0o750 {
		t.Errorf("the data directory has mode %v", info.Mode())
	}
}

// alive runs a service in a file system, as a user who is not root. When it works, use is called.
func alive(t *testing.T, dir, user string, env, command []string, use func()) {
	t.Helper()
	cmd := exec.Command(testkit.Tool(t, "chroot"), append([]string{"--userspec=" + user, "--groups=", dir}, command...)...)
	cmd.Args = append(cmd.Args, "--set", "download.listen=", "--set", "drop.listen=", "--set", "metrics=", "--set", "uploads.full=100") // the disk may be nearly full
	cmd.Env = append(env, "HOME=/")
	service := testkit.Start(t, "", cmd)
	answer, err := http.Get(address(t, service) + "/healthz")
	testkit.Must(t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("/healthz answers %s", answer.Status)
	}
	use()
	testkit.Must(t, service.Stop())
}

// testImages unpacks the images and runs their programs as a runtime does: as the image's user,
// with its environment and nothing else.
func testImages(t *testing.T, service, robot string) {
	dir, config := unpack(t, service)
	if config.User == "" || strings.HasPrefix(config.User, "0") {
		t.Errorf("the image runs as %q", config.User)
	}
	command := append(append(config.Entrypoint, config.Cmd...), "--set", "http.listen=127.0.0.1:0")
	alive(t, dir, config.User, config.Env, command, func() {})

	dir, config = unpack(t, robot)
	out := must(t, "chroot", append(append([]string{"--userspec=" + config.User, dir}, config.Entrypoint...), "--version")...)
	if !strings.Contains(out, "0.9.0") {
		t.Errorf("the robot's image says %s", out)
	}
}

// imageConfig is what an image says about its program.
type imageConfig struct {
	User       string
	Env        []string
	Entrypoint []string
	Cmd        []string
}

// unpack unpacks an OCI image as the specification says,
// https://github.com/opencontainers/image-spec: from the index to the manifest, and from that to
// the configuration and the layers.
func unpack(t *testing.T, archive string) (dir string, config imageConfig) {
	t.Helper()
	files := t.TempDir()
	dir = t.TempDir()
	must(t, "tar", "-xf", archive, "-C", files)
	type blob struct{ Digest string }
	path := func(b blob) string { return filepath.Join(files, "blobs", strings.Replace(b.Digest, ":", "/", 1)) }
	read := func(path string, into any) {
		text, err := os.ReadFile(path)
		testkit.Must(t, err)
		testkit.Must(t, json.Unmarshal(text, into))
	}
	var index struct{ Manifests []blob }
	read(filepath.Join(files, "index.json"), &index)
	var manifest struct {
		Config blob
		Layers []blob
	}
	read(path(index.Manifests[0]), &manifest)
	var about struct {
		Architecture string
		Config       imageConfig
	}
	read(path(manifest.Config), &about)
	if about.Architecture != runtime.GOARCH {
		t.Errorf("%s is for %s", archive, about.Architecture)
	}
	for _, layer := range manifest.Layers {
		must(t, "tar", "-xzf", path(layer), "-C", dir, "--numeric-owner", "--same-owner", "-p")
		if sum := must(t, "sha256sum", path(layer)); "sha256:"+strings.Fields(sum)[0] != layer.Digest {
			t.Errorf("layer %s has digest %s", layer.Digest, sum)
		}
	}
	if about.Config.Entrypoint == nil {
		t.Fatalf("%s names no program", archive)
	}
	return dir, about.Config
}
