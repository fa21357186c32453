package robotd

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The shared folder's traps and faults, next to a host that has none: each costs a
// bounded number of visits and bytes, and the host is collected whole.
// The traps' host asks for two seconds between visits, so this mostly waits.
func TestTraps(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	t.Parallel()
	bin := buildShared(t, "vhostd")
	sites := t.TempDir()
	const pages = 12
	for _, host := range []string{"good.test", "slow.test", "hang.test", "cut.test", "reset.test"} {
		dir := filepath.Join(sites, host)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var links strings.Builder
		for i := range pages {
			name := string(rune('a'+i)) + ".html"
			links.WriteString("<a href=" + name + ">x</a>\n")
			if err := os.WriteFile(filepath.Join(dir, name), []byte("<p>"+host+name+strings.Repeat(" words", 300)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte(links.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	port, log := freePort(t), filepath.Join(t.TempDir(), "log")
	at := func(ip string) string { return net.JoinHostPort(ip, port) }
	addrs := map[string]string{
		"good.test": "127.70.0.1", "slow.test": "127.70.0.2", "hang.test": "127.70.0.3",
		"cut.test": "127.70.0.4", "reset.test": "127.70.0.5", "trap.test": "127.70.0.6",
	}
	var listen []string
	hosts, seeds := make(map[string]string), []string(nil)
	for host, ip := range addrs {
		listen = append(listen, at(ip))
		hosts[host] = at(ip)
		seeds = append(seeds, "http://"+host+"/")
	}
	cmd := exec.Command(bin, "-sites", sites, "-listen", strings.Join(listen, ","), "-log", log,
		"-rule", "slow.test /b.html bw=5", "-rule", "hang.test /b.html hang=60s", "-rule", "cut.test /b.html truncate=0.5", "-rule", "reset.test /b.html reset=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("vhostd: %q, %v", line, err)
	}
	s := newService(t, seeds...)
	cfg := testConfig(t, s, hosts)
	cfg.Page.MaxBytes, cfg.Page.Timeout, cfg.Page.Stall = 2<<20, 2*time.Second, time.Second
	cfg.Page.MaxPerHost, cfg.Page.MaxDepth = 24, 12
	if err := Run(t.Context(), cfg, testLog(t)); err != nil {
		t.Fatal(err)
	}
	for host := range addrs {
		if n := len(s.cells(0, host)); host != "trap.test" && n < pages || n == 0 {
			t.Errorf("%d pages of %s were collected", n, host)
		}
	}
	visits := make(map[string]int)
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(line, "\t"); len(f) > 6 {
			visits[f[4]]++
			if f[4] == "trap.test" {
				first, _, _ := strings.Cut(strings.TrimPrefix(f[6], "/"), "/")
				first, _, _ = strings.Cut(first, "?")
				visits["trap.test/"+first]++
			}
		}
	}
	t.Logf("visits: %v", visits)
	if n := visits["trap.test"]; n > cfg.Page.MaxPerHost+30 {
		t.Errorf("%d visits to the traps", n)
	}
	if visits["trap.test/private"] != 0 || visits["trap.test/deep"] > 8 || visits["trap.test/bomb"] != 1 || visits["trap.test/endless"] != 1 {
		t.Errorf("visits to the traps: %v", visits)
	}
}
