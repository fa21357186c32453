package crash

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sheaf/archive/naming"
	"sheaf/cmd/sheaf/demo/sites"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
)

// program is one of Sheaf's programs as it is installed, which is started several times.
type program struct {
	t    *testing.T
	path string
	args []string
	env  []string // besides the test's
	log  string
	life *testkit.Process // the process that runs now, or the last one
}

func (p *program) start() {
	p.t.Helper()
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	p.life = testkit.Start(p.t, p.log, cmd)
}

// kill kills the process, unless it has ended.
func (p *program) kill() {
	p.t.Helper()
	p.life.Kill()
	p.wait()
}

// wait waits for the end of the process, and reports whether the program ended by itself and
// without an error.
func (p *program) wait() bool {
	p.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.life.Ended() }()
	err := testkit.Receive(p.t, "the end of "+p.path, ended)
	switch {
	case err == nil:
		return true
	case strings.Contains(err.Error(), "killed"):
		return false
	case strings.HasSuffix(testkit.Tail(p.log), "the manager has not given a list of hosts yet\n"): // a new robot that found the service dead
		return false
	}
	p.t.Fatalf("%s ended by itself: %v", p.path, err)
	return false
}

// web is the demo's small web, served on a loopback address for each of its hosts.
type web struct {
	*sites.Web
	at map[string]string // host:port by host
}

func serveWeb(t *testing.T) *web {
	packed, err := os.ReadFile("../../cmd/sheaf/demo/sites.zip.zst")
	testkit.Must(t, err)
	z, err := sites.Unpack(packed)
	testkit.Must(t, err)
	saved, err := sites.Open(z)
	testkit.Must(t, err)
	w := &web{saved, map[string]string{}}
	for _, host := range saved.Hosts() {
		w.at[host] = testkit.Addresses(t, 1)[0]
		l, err := net.Listen("tcp", w.at[host])
		testkit.Must(t, err)
		server := &http.Server{Handler: sites.NewHandler(saved)}
		go server.Serve(l)
		t.Cleanup(func() { server.Close() })
	}
	return w
}

// pages returns what each host serves, by the names of the pages in its archive.
func (w *web) pages(t *testing.T) map[string]map[string][]byte {
	all := map[string]map[string][]byte{}
	for _, page := range w.Pages(1) {
		u, err := url.Parse(page)
		testkit.Must(t, err)
		body, _, err := w.Body(1, u.Host, u.Path)
		testkit.Must(t, err)
		if all[u.Host] == nil {
			all[u.Host] = map[string][]byte{}
		}
		all[u.Host][naming.FileName(u.Host, page)] = body
	}
	return all
}

// listed matches what a robot logs when it has fetched a list that is not empty.
var listed = regexp.MustCompile(`"list of hosts".* hosts=[1-9]`)

// TestBinaries kills the installed programs, the service and two robots, while the robots crawl and
// upload. In the end every page of every site is in the archives, once.
func TestBinaries(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	sheaf, robotd := testkit.Build(t, "sheaf/cmd/sheaf"), testkit.Build(t, "sheaf/cmd/robotd")
	w := serveWeb(t)
	want := w.pages(t)
	most := 0
	for _, pages := range want {
		most = max(most, len(pages))
	}
	h := newInstallation(t, "")
	h.settings["hosts.suffixes"] = "invalid" // the pages link to hosts that are not to be looked up
	server := &program{t: t, path: sheaf, log: h.log, args: []string{"serve"}}
	for key, value := range h.settings {
		server.args = append(server.args, "--set", fmt.Sprintf("%s=%v", key, value))
	}
	server.start()
	testkit.Eventually(t, "the service comes up", func() error { // its token is there from the first moment, its answer later
		token, err := service.ReadToken(h.data)
		if err != nil {
			return err
		}
		h.process = &process{hello: hello{Token: token}}
		return h.operate(http.MethodGet, api.PathAdminRobots, nil, nil)
	})
	add := manager.HostsRequest{Hosts: w.Seeds(), Addresses: map[string][]string{}}
	for host, at := range w.at {
		ip, _, err := net.SplitHostPort(at)
		testkit.Must(t, err)
		add.Addresses[host] = []string{ip}
	}
	var robots []*program
	var hurry []func() // each lets a robot that does not run visit without intervals
	for by, targets := range map[string]string{"http": "http", "ftp": "ftp, http"} {
		var admitted manager.AdmitResponse
		testkit.Must(t, h.operate(http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: "by-" + by}, &admitted))
		data := filepath.Join(t.TempDir(), "robot")
		if out, err := exec.Command(robotd, "join", h.url(), admitted.Token, "--data", data).CombinedOutput(); err != nil {
			t.Fatalf("robotd join: %v: %s", err, out)
		}
		settings := robotSettings(t, w, data, targets, runTime(t)/time.Duration(2*most))
		hurry = append(hurry, func() { robotSettings(t, w, data, targets, 0) })
		p := &program{t: t, path: robotd, log: data + ".log", args: []string{"--once", "--config", settings}}
		p.start()
		robots = append(robots, p)
	}
	testkit.Eventually(t, "both robots subscribe", func() error {
		var list manager.RobotsResponse
		err := h.operate(http.MethodGet, api.PathAdminRobots, nil, &list)
		for _, r := range list.Robots {
			if !r.Subscribed {
				err = fmt.Errorf("robot %s has not", r.Name)
			}
		}
		return err
	})
	for _, p := range robots { // a robot that runs once ends if its list is empty
		p.kill()
	}
	testkit.Must(t, h.operate(http.MethodPost, api.PathAdminHosts, add, nil))
	for _, p := range robots {
		p.start()
	}
	// If the service was killed first, a robot that has fetched its empty list before would go on
	// with that, and end.
	for _, p := range robots {
		testkit.Until(t, "the robot has its hosts", func() bool {
			text, err := os.ReadFile(p.log)
			testkit.Must(t, err)
			if !listed.Match(text) && p.life.HasEnded() { // the service did not answer in time
				p.start()
			}
			return listed.Match(text)
		})
	}

	kills, random := map[string]int{}, testkit.Random(t)
	for range testkit.For(runTime(t)) {
		testkit.Moment(random, 700*time.Millisecond)
		p := pick(t, []*program{server, server, robots[0], robots[1]})
		p.kill()
		if !p.wait() {
			kills[filepath.Base(p.path)]++
			p.start()
		}
	}
	for i, p := range robots {
		p.life.Kill()
		if !p.wait() { // it has not ended by itself
			hurry[i]()
			p.start()
		}
	}
	for _, p := range robots {
		for !p.wait() {
			p.start()
		}
	}
	for host, pages := range want {
		h.comparePages("http", host, h.get("/pub/"+naming.HostPath(host)+"/all.tar.gz"), pages)
	}
	h.checkBuffers(nil)
	server.kill()
	report := h.fsck(sheaf)
	t.Logf("%d kills of sheaf, %d of robotd; %d pages of %d hosts, %d batches", kills["sheaf"], kills["robotd"], len(w.Pages(1)), len(want), report.Batches)
}

// robotSettings writes a robot's settings: a long crawl in small batches.
func robotSettings(t *testing.T, w *web, data, targets string, interval time.Duration) string {
	text := fmt.Sprintf(`data: %s
contact: https://robots.waseda.ac.jp/
interval: %s
window: always
poll: 1s
batch: {size: 60000}
disk: {free: 0}
upload: {targets: [%s], poll: 50ms}
network:
  allow_private: true
  hosts:
`, data, max(interval, time.Millisecond), targets)
	for host, at := range w.at {
		text += fmt.Sprintf("    %s: %s\n", host, at)
	}
	file := data + ".yaml"
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
