package robotd

import (
	"context"
	"time"

	"sheaf/robotd/schedule"
)

// never is far enough away for a gate that is not to open.
const never = 365 * 24 * time.Hour

// opening says from when on hosts may be visited, and until when (zero: for good): in
// the window, while the day's and the month's bytes last, and not before an
// interval has passed since the start, because nobody knows when the last run
// visited an address. While the robot is paused, by its site or by the manager, that is never.
func (r *Robot) opening(now time.Time) (from, until time.Time) {
	if r.paused() {
		from = now.Add(never)
		return from, from
	}
	return r.planned(now)
}

// paused reports whether the site or the manager wants no visits.
func (r *Robot) paused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held || !r.pause.since().IsZero()
}

// planned is opening for a robot that is not paused.
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

// watchWindow opens and closes the gate, and makes a batch when it closes: the day's, or
// what there is before a pause.
func (r *Robot) watchWindow(ctx context.Context) error {
	for {
		from, until := r.opening(time.Now())
		r.gate.Open(from, until)
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
		case <-timer.C:
			r.log.Info("window closed")
		}
		if _, err := r.seal(ctx); err != nil && ctx.Err() == nil {
			return err
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
	return saveJSON(r.path(usageFile), r.budget.Usage(time.Now()))
}
