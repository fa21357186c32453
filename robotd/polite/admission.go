package polite

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/loop"
	"sheaf/internal/window"
	"sheaf/robotd/config"
)

// Files in the data folder.
const (
	pauseFile = "paused.json" // the site's pause
	heldFile  = "held.json"   // the manager's pause
	usageFile = "usage.json"  // bytes used in the day and the month
)

// leaseOver says why nothing is visited while the lease is over.
const leaseOver = "the manager has not answered for so long that the hosts may be other robots' by now; the robot goes on when it answers"

// Never is the time for which a gate is closed if it is not to open at all.
const Never = 365 * 24 * time.Hour

// Admission opens and closes the gate. Its methods may be called concurrently.
type Admission struct {
	plan     config.Plan
	rested   time.Time // an interval after the start: nobody knows when an earlier run ended
	site     *Pause
	manager  *Pause
	guard    *Guard
	lease    *Lease
	gate     *Gate
	log      *slog.Logger
	budget   *Budget
	spent    chan struct{} // has an element when the budget is used up
	usage    string        // path of the file
	opens    sync.Mutex    // held while the gate is opened or closed
	savedMu  sync.Mutex    // guards saved
	saved    Usage         // content of the file
	notHours map[string]*window.Schedule
}

// NewAdmission returns the admission for a gate, and opens or closes the gate. guard watches the
// disk.
func NewAdmission(cfg *config.Config, gate *Gate, guard *Guard, lease *Lease, log *slog.Logger) (*Admission, error) {
	plan, err := cfg.Plan()
	if err != nil {
		return nil, err
	}
	c := &Admission{
		plan: plan, rested: time.Now().Add(cfg.Interval), gate: gate, guard: guard, lease: lease, log: log,
		budget: &Budget{Daily: cfg.Limits.Daily, Monthly: cfg.Limits.Monthly, Zone: plan.Window.Location()},
		spent:  make(chan struct{}, 1), usage: filepath.Join(cfg.DataDir, usageFile), notHours: make(map[string]*window.Schedule),
	}
	for host, text := range cfg.NotBetween {
		if c.notHours[host], err = window.Parse(text); err != nil {
			return nil, err
		}
	}
	if c.site, err = SitePause(cfg.DataDir); err != nil {
		return nil, err
	}
	if c.manager, err = OpenPause(filepath.Join(cfg.DataDir, heldFile)); err != nil {
		return nil, err
	}
	var used Usage
	if err := config.LoadJSON(c.usage, &used); err != nil {
		return nil, err
	}
	c.budget.Restore(used)
	c.SetGate()
	return c, nil
}

// SitePause opens the pause of the robot's site, which is kept in the data folder dir.
func SitePause(dir string) (*Pause, error) { return OpenPause(filepath.Join(dir, pauseFile)) }

// Opening returns the beginning and the end of the present or next time in which hosts may be
// visited; a zero end: there is none.
func (c *Admission) Opening(now time.Time) (from, until time.Time) {
	left, _, leased := c.lease.Left()
	if c.Paused() || c.guard.Short() != "" || leased && left <= 0 {
		from = now.Add(Never)
		return from, from
	}
	from, until = c.Planned(now)
	if end := now.Add(left); leased && (until.IsZero() || end.Before(until)) {
		until = end
	}
	return from, until
}

// Planned is Opening as if the robot were not paused, had room, and its lease had no end.
func (c *Admission) Planned(now time.Time) (from, until time.Time) {
	from = now
	for _, at := range []time.Time{c.rested, c.budget.Next(now)} {
		if at.After(from) {
			from = at
		}
	}
	return WindowAfter(c.plan, from, now)
}

// WindowAfter returns the opening of the window that contains from, or the next opening. If there
// is neither, both times are Never after now.
func WindowAfter(plan config.Plan, from, now time.Time) (time.Time, time.Time) {
	from, ok := plan.Window.Next(from)
	if !ok {
		from = now.Add(Never)
		return from, from
	}
	return from, plan.Window.Until(from)
}

// MayVisit reports whether hosts may be visited now.
func (c *Admission) MayVisit(now time.Time) bool {
	from, _ := c.Opening(now)
	return !from.After(now)
}

// Paused reports whether the site or the manager has paused the robot.
func (c *Admission) Paused() bool { return c.Held() || !c.site.Since().IsZero() }

// Held reports whether the manager has paused the robot.
func (c *Admission) Held() bool { return !c.manager.Since().IsZero() }

// Hold begins or ends the manager's pause. Pages in hand are finished, and uploads go on.
func (c *Admission) Hold(on bool) error {
	changed, err := c.manager.Set(on)
	if changed {
		c.log.Info("the manager's order about visits", "paused", on)
	}
	return err
}

// SetPaused begins or ends the site's pause. When SetPaused(true) returns, no visit begins any
// more.
func (c *Admission) SetPaused(on bool) error {
	changed, err := c.site.Set(on)
	if changed {
		c.SetGate()
		c.log.Info("pause", "paused", on)
	}
	return err
}

// Quiet returns the hours in which a host is not to be visited; nil: there are no such hours.
func (c *Admission) Quiet(host string) *window.Schedule { return c.notHours[host] }

// Short says why there is no room to collect more; empty: there is room.
func (c *Admission) Short() string { return c.guard.Short() }

// WhyClosed says in a few words why nothing is visited now.
func (c *Admission) WhyClosed(now time.Time) string {
	switch {
	case c.Held():
		return "held by the manager"
	case c.Paused():
		return "paused"
	case c.Short() != "":
		return "no room on the disk"
	case c.budget.Next(now).After(now):
		return "limit of bytes"
	case !c.lease.MayVisit():
		return "lease"
	}
	return "window"
}

// SetGate opens or closes the gate as things are now. It returns the end of the present or next
// opening; zero: it has no end.
func (c *Admission) SetGate() (until time.Time) {
	c.opens.Lock() // of two callers, the one that looked later sets the gate later
	defer c.opens.Unlock()
	from, until := c.Opening(time.Now())
	c.gate.Open(from, until)
	return until
}

// Watch opens and closes the gate until ctx ends. When the gate has closed it calls seal, which
// makes a batch.
func (c *Admission) Watch(ctx context.Context, seal func(context.Context) error) error {
	for {
		until := c.SetGate()
		wait := Never
		if !until.IsZero() {
			wait = time.Until(until)
		}
		closed := c.wait(ctx, time.After(wait))
		if ctx.Err() != nil {
			return nil
		}
		if !closed {
			continue
		}
		c.SetGate() // sealing may take long
		if err := seal(ctx); err != nil && ctx.Err() == nil {
			if err := c.Tolerate(err); err != nil {
				return err
			}
		}
	}
}

// wait waits for something that opens or closes the gate, and reports whether the gate has closed.
func (c *Admission) wait(ctx context.Context, end <-chan time.Time) (closed bool) {
	select {
	case <-ctx.Done():
	case <-c.spent:
		c.log.InfoContext(ctx, "limit of bytes reached", "used", c.budget.Usage(time.Now()))
		return true
	case <-c.site.changes:
		return c.Paused()
	case <-c.manager.changes:
		return c.Paused()
	case <-c.guard.turns:
		if why := c.Short(); why != "" {
			c.log.WarnContext(ctx, "collecting stops for want of room; batches are still uploaded", "reason", why)
			return true
		}
		c.log.InfoContext(ctx, "there is room again")
	case <-c.lease.changes:
	case <-end:
		if !c.lease.MayVisit() {
			c.log.WarnContext(ctx, "nothing is visited: "+leaseOver)
			return true
		}
		c.log.InfoContext(ctx, "window closed")
		return true
	}
	return false
}

// Look measures the disk and the spool.
func (c *Admission) Look() error { return c.guard.Look() }

// Spend counts bytes that came from web servers.
func (c *Admission) Spend(bytes int64) {
	if c.budget.Add(time.Now(), bytes) {
		loop.Offer(c.spent, struct{}{})
	}
}

// Wrote counts bytes that a page has added to the disk, and closes the gate if there is no more
// room.
func (c *Admission) Wrote(bytes int64) error {
	err := c.guard.Wrote(bytes)
	if c.Short() != "" {
		c.SetGate()
	}
	return err
}

// Tolerate returns nil for the error of a full disk: the robot then waits until there is room.
// Other errors are returned.
func (c *Admission) Tolerate(err error) error {
	if !files.IsFull(err) {
		return err
	}
	c.guard.Full()
	c.log.Warn("the disk is full", "err", err)
	return nil
}

// SaveUsage writes the usage to its file, if it has changed.
func (c *Admission) SaveUsage() error {
	c.savedMu.Lock()
	defer c.savedMu.Unlock()
	used := c.budget.Usage(time.Now())
	if used == c.saved {
		return nil
	}
	err := config.SaveJSON(c.usage, used)
	if err == nil {
		c.saved = used
	}
	return err
}

// Hours says whether a robot may visit hosts now.
type Hours struct {
	Paused  time.Time `json:"paused,omitzero"` // since when paused by the robot's own site
	Held    time.Time `json:"held,omitzero"`   // since when paused by the manager's order
	Window  string    `json:"window"`
	Open    bool      `json:"open"`             // the window is open
	Changes time.Time `json:"changes,omitzero"` // when the window closes or opens
	Budget  time.Time `json:"budget,omitzero"`  // until when the limit of bytes stops the robot
}

// Hours returns whether hosts may be visited at a time, and what the operator should know of it.
func (c *Admission) Hours(at time.Time) (h Hours, warnings []string) {
	h = Hours{Window: c.plan.Window.String(), Open: c.plan.Window.Open(at), Paused: c.site.Since(), Held: c.manager.Since()}
	if h.Open {
		h.Changes = c.plan.Window.Until(at)
	} else {
		h.Changes, _ = c.plan.Window.Next(at)
	}
	if paid := c.budget.Next(at); paid.After(at) {
		h.Budget = paid
	}
	if why := c.Short(); why != "" {
		warnings = append(warnings, "nothing is collected: "+why)
	}
	if !c.lease.MayVisit() {
		warnings = append(warnings, "nothing is visited: "+leaseOver)
	}
	return h, warnings
}

// Pause is an order to visit no hosts. Its file exists as long as the pause, so the pause outlasts
// the process. Its methods may be called concurrently.
type Pause struct {
	path    string
	changes chan struct{} // has an element after a change

	mu    sync.Mutex // guards since
	since time.Time  // zero: there is no pause
}

// pauseRecord is the content of a pause's file.
type pauseRecord struct {
	Since time.Time `json:"since"`
}

// OpenPause reads the file at path, if there is one.
func OpenPause(path string) (*Pause, error) {
	var rec pauseRecord
	err := config.LoadJSON(path, &rec)
	return &Pause{path: path, changes: make(chan struct{}, 1), since: rec.Since}, err
}

// Since returns the time at which the pause began; zero: there is no pause.
func (p *Pause) Since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since
}

// Set begins or ends the pause, in the file first. It reports whether that changed anything.
func (p *Pause) Set(on bool) (changed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on != p.since.IsZero() {
		return false, nil
	}
	at := time.Time{}
	if on {
		at = time.Now()
		err = config.SaveJSON(p.path, pauseRecord{at})
	} else {
		err = os.RemoveAll(p.path) // it may be gone already
	}
	if err != nil {
		return false, err
	}
	p.since = at
	loop.Offer(p.changes, struct{}{})
	return true, nil
}
