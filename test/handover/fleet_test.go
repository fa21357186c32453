// Package handover tests what moves hosts from one robot to another, with real robots: no address
// is visited by two robots at once, whatever happens to them.
package handover

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/manager/roster"
	"sheaf/test/servicetest"
)

func TestMain(m *testing.M) { testkit.InMemory(m) }

// web is synthweb, the shared folder's synthetic web, as a process.
type web struct {
	t     *testing.T
	ctl   string
	hosts []string            // names with ports
	at    map[string][]string // by host: its address
	front *front              // nil: robots come to the servers themselves
}

// stats is what synthweb says that it saw.
type stats struct {
	Requests int64 `json:"requests"`
	Unique   int64 `json:"unique_pages"`
	Pages    int64 `json:"pages"`
	ByIP     struct {
		N              int     `json:"n"`
		MaxConcurrency int     `json:"max_concurrency"`
		MinGap         float64 `json:"min_gap_s"`
	} `json:"by_ip"`
}

// newWeb serves hosts with so many pages each, at so many addresses from base on.
func newWeb(t *testing.T, base string, hosts, addresses, pages int, args ...string) *web {
	t.Helper()
	bin := testkit.BuildShared(t, "synthweb")
	free := testkit.Addresses(t, 2)
	_, port, err := net.SplitHostPort(free[1])
	testkit.Must(t, err)
	w := &web{t: t, ctl: free[0], at: map[string][]string{}}
	args = append([]string{
		"-ctl", w.ctl, "-port", port, "-base", base, "-names", "-hosts", fmt.Sprint(hosts), "-ips", fmt.Sprint(addresses),
		"-pages", fmt.Sprint(pages), "-median", "1", "-max", "2",
	}, args...)
	p := testkit.Start(t, "", exec.Command(bin, args...))
	p.Ready(t, func() error { _, err := w.ask(); return err })
	ip := net.ParseIP(base).To4()
	for k := range hosts {
		name := fmt.Sprintf("h%d.synth.test:%s", k, port)
		w.hosts = append(w.hosts, name)
		w.at[name] = []string{net.IPv4(ip[0], ip[1], ip[2], ip[3]+byte(k%addresses)).String()}
	}
	return w
}

func (w *web) ask() (s stats, err error) {
	resp, err := http.Get("http://" + w.ctl + "/stats")
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

func (w *web) stats() stats {
	w.t.Helper()
	s, err := w.ask()
	testkit.Must(w.t, err)
	return s
}

// visited waits for n more requests.
func (w *web) visited(n int64) {
	w.t.Helper()
	enough := w.stats().Requests + n
	testkit.Until(w.t, fmt.Sprintf("%d more requests", n), func() bool { return w.stats().Requests >= enough })
}

// fleet is a service with robots that are processes of their own.
type fleet struct {
	*servicetest.Service
	t        *testing.T
	program  string
	dir      string
	web      *web
	lease    time.Duration
	interval time.Duration
	cycle    time.Duration // of robots
	width    int           // of robots: hosts visited at once
	robots   []*robot
}

// robot is a robot with its folder, and the process that runs now, or the last one.
type robot struct {
	name    string
	config  string
	starts  int
	contact string // of the process: another one after each start
	process *testkit.Process
	runs    bool
	stopped bool // by SIGSTOP
}

// newFleet starts a service whose leases are that short.
func newFleet(t *testing.T, w *web, lease, interval time.Duration, settings map[string]any) *fleet {
	t.Helper()
	all := servicetest.Quiet()
	all["publish.window"] = "always"
	for name, value := range settings {
		all[name] = value
	}
	s := servicetest.StartWith(t, all, func(c *service.Config) { c.Manager.Balance.Lease, c.Manager.Balance.Brief = lease, true })
	return &fleet{Service: s, t: t, program: testkit.Build(t, "./cmd/robotd"), dir: t.TempDir(), web: w, lease: lease, interval: interval, cycle: time.Second, width: 100}
}

// add gives the service some of the web's hosts.
func (f *fleet) add(hosts ...string) {
	f.t.Helper()
	req := manager.HostsRequest{Addresses: map[string][]string{}}
	for _, h := range hosts {
		req.Hosts = append(req.Hosts, "http://"+h+"/")
		req.Addresses[h] = f.web.at[h]
	}
	f.Operate(http.MethodPost, api.PathAdminHosts, req, nil)
}

// join makes a robot and starts it.
func (f *fleet) join(name string) *robot {
	f.t.Helper()
	r := f.admit(name)
	f.start(r)
	return r
}

// admit makes a robot.
func (f *fleet) admit(name string) *robot {
	f.t.Helper()
	var admitted manager.AdmitResponse
	f.Operate(http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: name}, &admitted)
	data := filepath.Join(f.dir, name)
	testkit.Run(f.t, "", f.program, "join", f.At.HTTP, admitted.Token, "--data", data)
	r := &robot{name: name, config: filepath.Join(f.dir, name+".yaml")}
	var text strings.Builder
	fmt.Fprintf(&text, "data: %s\ncontact: https://robots.example.ac.jp/\nwindow: always\ninterval: %v\nheartbeat: 150ms\npoll: 1s\ncycle: %v\nconcurrency: %d\n", data, f.interval, f.cycle, f.width)
	fmt.Fprintf(&text, "adapt: {max: 0s}\ndisk: {free: 0}\npage: {probe: false}\nupload: {poll: 100ms}\ntap: {socket: none}\nnetwork:\n  allow_private: true\n  hosts:\n")
	for host, at := range f.web.at {
		_, port, _ := net.SplitHostPort(host)
		fmt.Fprintf(&text, "    %q: %q\n", host, at[0]+":"+port)
	}
	testkit.Must(f.t, os.WriteFile(r.config, []byte(text.String()), 0o600))
	f.robots = append(f.robots, r)
	return r
}

func (f *fleet) start(r *robot) {
	f.t.Helper()
	r.starts++
	r.contact = fmt.Sprintf("https://robots.example.ac.jp/%s/%d", r.name, r.starts)
	run := exec.Command(f.program, "run", "--config", r.config)
	run.Env = append(os.Environ(), "ROBOTD_CONTACT="+r.contact)
	r.process = testkit.Start(f.t, filepath.Join(f.dir, fmt.Sprintf("%s-%d.log", r.name, r.starts)), run)
	r.runs = true
}

func (f *fleet) kill(r *robot) {
	r.process.Kill()
	f.web.front.end(r.contact)
	r.runs, r.stopped = false, false
}

// leave ends a robot in order, and gives its hosts back.
func (f *fleet) leave(r *robot) {
	f.t.Helper()
	testkit.Must(f.t, r.process.Stop())
	f.web.front.end(r.contact)
	r.runs = false
	testkit.Run(f.t, "", f.program, "leave", "--config", r.config)
}

func (f *fleet) freeze(r *robot) {
	testkit.Must(f.t, r.process.Process.Signal(syscall.SIGSTOP))
	r.stopped = true
}

func (f *fleet) thaw(r *robot) {
	testkit.Must(f.t, r.process.Process.Signal(syscall.SIGCONT))
	r.stopped = false
}

// known returns what the service knows of a robot.
func (f *fleet) known(name string) roster.Robot {
	f.t.Helper()
	var answer manager.RobotsResponse
	f.Operate(http.MethodGet, api.PathAdminRobots, nil, &answer)
	i := slices.IndexFunc(answer.Robots, func(r roster.Robot) bool { return r.Name == name })
	return answer.Robots[i]
}

// awake returns the robots that run.
func (f *fleet) awake() (list []*robot) {
	for _, r := range f.robots {
		if r.runs && !r.stopped {
			list = append(list, r)
		}
	}
	return list
}
