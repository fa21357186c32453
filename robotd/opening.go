package robotd

import (
	"context"
	"time"

	"sheaf/robotd/datadir"
	"sheaf/robotd/schedule"
)

// never is far enough away for a gate that is not to open.
const never = 365 * 24 * time.Hour

// opening says from when on hosts may be visited, and until when (zero: for good): in
// the window, while the day's and the month's bytes last, and not before an
// interval has passed since the start, because nobody knows when the last run
// visited an address. While the robot is paused, by its site or by the manager, or has no
// room, that is never.
func (r *Robot) opening(now time.Time) (from, until time.Time) {
	if r.paused() || r.room.Short() != "" {
		from = now.Add(never)
		return from, from
	}
	return r.planned(now)
}

// paused reports whether the site or the manager wants no visits.
func (r *Robot) paused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.held.IsZero() || !r.pause.since().IsZero()
}

// planned is opening for a robot that is not paused and has room.
func (r *Robot) planned(now time.Time) (from, until time.Time) {
	from = now
	if rested := r.started.Add(r.cfg.Interval); rested.After(from) {
		from = rested
	}
	if paid := r.budget.Next(now); paid.After(from) {
		from = paid
	}
	return windowAfter(r.plan, from, now)
}

// windowAfter is the window's opening that from lies in, or the next one.
func windowAfter(plan schedule.Plan, from, now time.Time) (time.Time, time.Time) {
	from, ok := plan.Window.Next(from)
	if !ok {
		from = now.Add(never)
		return from, from
	}
	return from, plan.Window.Until(from)
}

// setGate opens or closes the gate as things are now, and returns when that may change: zero
// where nobody knows.
func (r *Robot) setGate() (until time.Time) {
	r.opens.Lock() // who looked later closes or opens later
	defer r.opens.Unlock()
	from, until := r.opening(time.Now())
	r.gate.Open(from, until)
	return until
}

// watchWindow opens and closes the gate, and makes a batch when it closes: the day's, or
// what there is before a pause.
func (r *Robot) watchWindow(ctx context.Context) error {
	for {
		until := r.setGate()
		wait := never
		if !until.IsZero() {
			wait = time.Until(until)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-r.spent:
			timer.Stop()
			r.log.Info("limit of bytes reached", "used", r.budget.Usage(time.Now()))
		case <-r.pause.turns:
			timer.Stop()
			if !r.paused() {
				continue
			}
		case <-r.turned:
			timer.Stop()
			if !r.paused() {
				continue
			}
		case <-r.room.Turns():
			timer.Stop()
			why := r.room.Short()
			if why == "" {
				r.log.Info("there is room again")
				continue
			}
			r.log.Warn("collecting stops for want of room; batches go on to be uploaded", "why", why)
		case <-timer.C:
			r.log.Info("window closed")
		}
		r.setGate() // sealing may take long
		if _, err := r.seal(ctx); err != nil && ctx.Err() == nil {
			if err := r.tolerate(err); err != nil {
				return err
			}
		}
	}
}

// spend counts bytes that came over the line.
func (r *Robot) spend(bytes int64) {
	if !r.budget.Add(time.Now(), bytes) {
		return
	}
	select {
	case r.spent <- struct{}{}:
	default: // told already
	}
}

// usageFile keeps what the day and the month have used.
const usageFile = "usage.json"

func (r *Robot) saveUsage() error {
	used := r.budget.Usage(time.Now())
	if used == r.saved {
		return nil
	}
	r.saved = used
	return datadir.SaveJSON(r.path(usageFile), used)
}
