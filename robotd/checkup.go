package robotd

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/robotd/fetch"
	"sheaf/robotd/status"
)

// Finding is what a check found of one thing that the robot needs.
type Finding struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Text string `json:"text"`
}

// Bounds of a check.
const (
	checkTimeout = 30 * time.Second // for each question
	checkedHosts = 20               // whose addresses are looked up
	leastFree    = 1 << 30          // bytes on the disk
)

// Check tries what a robot with these settings needs, visits no host, and tells what it
// found, thing by thing. It reports whether the robot would work.
func Check(ctx context.Context, cfg Config, tell func(Finding)) (ok bool) {
	ok = true
	report := func(what string, err error, format string, args ...any) bool {
		f := Finding{What: what, OK: err == nil, Text: fmt.Sprintf(format, args...)}
		if err != nil {
			ok, f.Text = false, err.Error()
		}
		tell(f)
		return err == nil
	}
	plan, err := cfg.plan()
	if !report("settings", err, "good; servers see %s", cfg.userAgent()) {
		return false
	}
	now := time.Now()
	from, until := windowAfter(plan, now, now)
	switch {
	case from.Sub(now) >= never:
		report("window", wrong("window", cfg.Window, "it never opens"), "")
	case until.IsZero():
		report("window", nil, "always open")
	default:
		report("window", nil, "open from %s to %s", from.Local().Format(time.DateTime), until.Local().Format(time.DateTime))
	}
	free, err := writable(cfg.DataDir)
	report("folder", err, "%s can be written to, with %s free", cfg.DataDir, status.Size(free))
	id, err := loadIdentity(cfg.DataDir)
	if !report("identity", err, "this is a robot's folder") {
		return false
	}
	cfg.Manager = id.managers(&cfg)
	m := &manager{at: newEndpoints(cfg.Manager), robot: id.Robot, secret: id.Secret, client: http.DefaultClient}
	asking, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	list, err := m.list(asking, "")
	if advice, yes := hopeless(err); yes {
		err = fmt.Errorf("%w (%s)", err, advice)
	}
	if !report("manager", err, "%s knows %s and gives it a list", m.at.current(), id.Robot) {
		return false
	}
	if c := m.clock.measured(); c != nil {
		off := time.Duration(c.OffsetMS) * time.Millisecond
		err = nil
		if off.Abs() > clockOff {
			err = fmt.Errorf("this machine's clock differs from the manager's by %v: pages would bear wrong times", off.Round(time.Second))
		}
		report("clock", err, "within %v of the manager's", off.Abs()+time.Duration(c.ErrorMS)*time.Millisecond)
	}
	hosts := list.hosts()
	if len(hosts) == 0 {
		report("hosts", nil, "none is assigned yet")
		return ok
	}
	some := maps.Collect(func(yield func(string, []string) bool) {
		for _, name := range slices.Sorted(maps.Keys(hosts))[:min(len(hosts), checkedHosts)] {
			if !yield(name, hosts[name]) {
				return
			}
		}
	})
	looking, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, unknown := lookUp(looking, fetch.New(fetch.Options{
		Resolver: resolver(cfg.Network.Resolver), Overrides: cfg.Network.Hosts, AllowPrivate: cfg.Network.AllowPrivate,
	}), some)
	err = nil
	if len(unknown) == len(some) {
		err = fmt.Errorf("%d of %d that were looked up have no address; the first: %s", len(unknown), len(some), unknown[0].Why)
	}
	report("hosts", err, "%d assigned; %d of %d that were looked up have an address", len(hosts), len(some)-len(unknown), len(some))
	return ok
}

// writable tries the folder and returns how many bytes are free there.
func writable(dir string) (free int64, err error) {
	f, err := os.CreateTemp(dir, ".check-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write([]byte("robotd check\n")); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	if free = int64(st.Bavail) * int64(st.Bsize); free < leastFree {
		return free, fmt.Errorf("%s has only %s free", dir, status.Size(free))
	}
	return free, nil
}
