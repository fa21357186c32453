package robotd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sheaf/internal/settings"
	"sheaf/robotd/admission"
	"sheaf/robotd/assignment"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/fetch"
	"sheaf/robotd/identity"
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
func Check(ctx context.Context, cfg config.Config, tell func(Finding)) (ok bool) {
	ok = true
	report := func(what string, err error, format string, args ...any) bool {
		f := Finding{What: what, OK: err == nil, Text: fmt.Sprintf(format, args...)}
		if err != nil {
			ok, f.Text = false, err.Error()
		}
		tell(f)
		return err == nil
	}
	plan, err := cfg.Plan()
	if err != nil {
		for line := range strings.Lines(err.Error()) { // one for each setting
			report("settings", errors.New(strings.TrimSpace(line)), "")
		}
		return false
	}
	report("settings", nil, "good; servers see %s", cfg.UserAgent(Version))
	now := time.Now()
	from, until := admission.WindowAfter(plan, now, now)
	switch {
	case from.Sub(now) >= admission.Never:
		report("window", settings.Wrong("window", cfg.Window, "it never opens"), "")
	case until.IsZero():
		report("window", nil, "always open")
	default:
		report("window", nil, "open from %s to %s", from.Local().Format(time.DateTime), until.Local().Format(time.DateTime))
	}
	free, err := writable(cfg.DataDir)
	report("folder", err, "%s can be written to, with %s free", cfg.DataDir, status.Size(free))
	id, err := identity.Load(cfg.DataDir)
	if !report("identity", err, "this is a robot's folder") {
		return false
	}
	cfg.Manager = id.Managers(cfg.Manager)
	m, list := askEach(ctx, cfg.Manager, id, report)
	if list == nil {
		return false
	}
	if c := m.Clock(); c != nil {
		off := time.Duration(c.OffsetMS) * time.Millisecond
		err = nil
		if off.Abs() > clockOff {
			err = fmt.Errorf("this machine's clock differs from the manager's by %v: pages would bear wrong times", off.Round(time.Second))
		}
		report("clock", err, "within %v of the manager's", off.Abs()+time.Duration(c.ErrorMS)*time.Millisecond)
	}
	hosts := list.Hosts()
	if len(hosts) == 0 {
		report("hosts", nil, "none is assigned yet; a robot gets hosts while it runs")
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
	_, unknown := lookUp(looking, fetch.New(lookUpOptions(&cfg)), some)
	err = nil
	if len(unknown) == len(some) {
		err = fmt.Errorf("%d of %d that were looked up have no address; the first: %s", len(unknown), len(some), unknown[0].Why)
	}
	report("hosts", err, "%d assigned; %d of %d that were looked up have an address", len(hosts), len(some)-len(unknown), len(some))
	return ok
}

// askEach asks each of the manager's URLs for the list, and returns one that gave it. One that does not
// answer is a fault only where none does.
func askEach(ctx context.Context, urls []string, id *identity.Identity, report func(string, error, string, ...any) bool) (here *client.Client, list *assignment.List) {
	type away struct {
		url string
		err error
	}
	var dead []away
	for _, u := range urls {
		m := client.New([]string{u}, id.Robot, id.Secret, http.DefaultClient)
		asking, cancel := context.WithTimeout(ctx, checkTimeout)
		l, err := m.List(asking, "")
		cancel()
		if err != nil {
			if advice, yes := client.Advice(err); yes {
				err = fmt.Errorf("%w (%s)", err, advice)
			}
			dead = append(dead, away{u, err})
			continue
		}
		here, list = m, l
		report("manager", nil, "%s knows %s and gives it a list", u, id.Robot)
	}
	if len(urls) == 0 {
		report("manager", errors.New("the setting manager is empty, and joining left no URL"), "")
	}
	for _, d := range dead {
		if list == nil {
			report("manager", d.err, "")
		} else {
			report("manager", nil, "%s does not answer, so that the others must: %v", d.url, d.err)
		}
	}
	return here, list
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
