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

	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
	"sheaf/robotd/fetch"
	"sheaf/robotd/polite"
)

// Finding is what a check found about one thing that the robot needs.
type Finding struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Text string `json:"text"`
}

// Bounds of a check.
const (
	checkTimeout = 30 * time.Second // for each question
	checkedHosts = 20               // hosts that are looked up
)

// Check tries what a robot with these settings needs, without visiting a host. It tells what it
// finds, thing by thing, and reports whether the robot would work.
func Check(ctx context.Context, cfg config.Config, tell func(Finding)) (ok bool) {
	c := &checkup{tell: tell, ok: true}
	plan, err := cfg.Plan()
	if err != nil {
		for line := range strings.Lines(err.Error()) { // one for each setting
			c.report("settings", errors.New(strings.TrimSpace(line)), "")
		}
		return false
	}
	c.report("settings", nil, "good; servers see %s", userAgent(&cfg))
	c.window(plan)
	free, err := writable(cfg.DataDir, 2*cfg.Disk.Free) // with less it would soon stop collecting
	c.report("folder", err, "%s can be written to, with %s free", cfg.DataDir, control.Size(free))
	id, err := client.LoadIdentity(cfg.DataDir)
	if !c.report("identity", err, "this is a robot's folder") {
		return false
	}
	manager, list := c.askEach(ctx, id.Managers(cfg.Manager), id)
	if list == nil {
		return false
	}
	c.clock(manager.Clock())
	if cfg.Identity.Sign != "" {
		c.signing(ctx, cfg.Identity.Sign, id.Key, manager)
	}
	c.hosts(ctx, list.Hosts(), fetch.New(lookUpOptions(&cfg)))
	return c.ok
}

// checkup is a check under way.
type checkup struct {
	tell func(Finding)
	ok   bool
}

// report tells a finding: err or, if err is nil, the text. It reports whether err is nil.
func (c *checkup) report(what string, err error, format string, args ...any) bool {
	f := Finding{What: what, OK: err == nil, Text: fmt.Sprintf(format, args...)}
	if err != nil {
		c.ok, f.Text = false, err.Error()
	}
	c.tell(f)
	return err == nil
}

func (c *checkup) window(plan config.Plan) {
	now := time.Now()
	from, until := polite.WindowAfter(plan, now, now)
	switch {
	case from.Sub(now) >= polite.Never:
		c.report("window", settings.Wrong("window", plan.Window.String(), "it never opens"), "")
	case until.IsZero():
		c.report("window", nil, "always open")
	default:
		c.report("window", nil, "open from %s to %s", from.Local().Format(time.DateTime), until.Local().Format(time.DateTime))
	}
}

func (c *checkup) clock(measured *wire.Clock) {
	if measured == nil {
		return
	}
	var err error
	if wrong := measured.Wrong(); wrong != 0 {
		err = fmt.Errorf("this machine's clock differs from the manager's by %v: pages would bear wrong times", wrong)
	}
	off := time.Duration(measured.OffsetMS) * time.Millisecond
	c.report("clock", err, "within %v of the manager's", off.Abs()+time.Duration(measured.ErrorMS)*time.Millisecond)
}

func (c *checkup) hosts(ctx context.Context, hosts map[string][]string, fetcher *fetch.Fetcher) {
	if len(hosts) == 0 {
		c.report("hosts", nil, "none is assigned yet; a robot gets hosts while it runs")
		return
	}
	some := slices.Sorted(maps.Keys(hosts))
	some = some[:min(len(some), checkedHosts)]
	looking, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, unknown := lookUp(looking, fetcher, slices.Values(some))
	var err error
	if len(unknown) == len(some) {
		err = fmt.Errorf("%d of %d that were looked up have no address; the first: %s", len(unknown), len(some), unknown[0].Why)
	}
	c.report("hosts", err, "%d assigned; %d of %d that were looked up have an address", len(hosts), len(some)-len(unknown), len(some))
}

// askEach asks each of the manager's URLs for the list, and returns the client of the last URL that
// gave a list, and the list; nil if no URL did. A URL that does not answer is a fault only if no
// URL gave a list.
func (c *checkup) askEach(ctx context.Context, urls []string, id *client.Identity) (here *client.Client, list *client.List) {
	var failed []string
	var errs []error
	for _, u := range urls {
		m := client.New([]string{u}, id.Robot, id.Secret, http.DefaultClient)
		asking, cancel := context.WithTimeout(ctx, checkTimeout)
		l, _, err := m.List(asking, "")
		cancel()
		if err != nil {
			if advice, needed := client.Advice(err); needed {
				err = fmt.Errorf("%w (%s)", err, advice)
			}
			failed, errs = append(failed, u), append(errs, err)
			continue
		}
		here, list = m, l
		c.report("manager", nil, "%s knows %s and gives it a list", u, id.Robot)
	}
	if len(urls) == 0 {
		c.report("manager", errors.New("the setting manager is empty, and joining left no URL"), "")
	}
	for i, err := range errs {
		if list == nil {
			c.report("manager", err, "")
		} else {
			c.report("manager", nil, "%s does not answer, so that the others must: %v", failed[i], err)
		}
	}
	return here, list
}

// writable tries to write to a folder, and returns how many bytes are free there. It fails if they
// are fewer than wanted.
func writable(dir string, wanted int64) (free int64, err error) {
	f, err := os.CreateTemp(dir, ".check-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	_, err = f.WriteString("robotd check\n")
	if err = errors.Join(err, f.Sync()); err != nil {
		return 0, err
	}
	disk, err := polite.DiskOf(dir)()
	if err == nil && disk.Bytes < wanted {
		err = fmt.Errorf("%s has only %s free, want %s, twice disk.free", dir, control.Size(disk.Bytes), control.Size(wanted))
	}
	return disk.Bytes, err
}
