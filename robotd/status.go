package robotd

import (
	"errors"
	"fmt"
	"os"
	"time"

	"sheaf/robotd/control"
)

// Status returns the robot's state, without its hosts. It may be called concurrently with all other
// methods.
func (r *Robot) Status() (control.Status, error) { return r.status(0) }

// status returns the robot's state with a number of hosts; negative: all.
func (r *Robot) status(hosts int) (control.Status, error) {
	now, rec := time.Now(), &r.records
	s := control.Status{
		Robot: r.id.Robot, Version: Version, PID: os.Getpid(), Started: r.started, At: now,
		Troubles: []string{}, Warnings: []string{}, Progress: r.crawler.Progress(now, hosts),
		Stored: control.Stored{Segments: rec.Batches.Size(), Found: rec.Found.Waiting(), Lost: rec.Ledger.Totals()},
	}
	if r.tap != nil {
		s.Tap = &control.TapStatus{Consumers: r.tap.Consumers(), Dropped: r.tap.Dropped()}
	}
	var warned []string
	s.Hours, warned = r.manners.Admission.Hours(now)
	s.Warnings = append(s.Warnings, warned...)
	cycle, list := r.state.get(), r.list.List()
	s.Collection = control.Collection{Generation: list.Generation, Hosts: len(list.Hosts()), Cycle: cycle.Number, Began: cycle.Began, Ended: cycle.Ended}
	s.Managers, s.Clock, s.Page = r.client.Targets(), r.client.Clock(), r.client.Page()
	s.Next = control.Next{Log: r.plan.NextLog(now), Manager: r.session.Next(), Visit: s.Progress.Next}
	s.Troubles = append(s.Troubles, s.Progress.Troubles...)
	if r.hands != nil {
		s.Hands, warned = r.hands.Hands()
		s.Warnings = append(s.Warnings, warned...)
	}
	if r.crawler.Current() == nil && !s.Ended.IsZero() {
		s.Next.Cycle, _ = r.plan.NextCycle(s.Began, s.Ended)
	}
	err := r.describeUploads(&s)
	s.Warnings = append(s.Warnings, warnings(&s)...)
	return s, err
}

// longInSpool is how long a batch may wait before the operator is warned.
const longInSpool = 24 * time.Hour

// warnings names what the operator should look at, though the crawl goes on.
func warnings(s *control.Status) (all []string) {
	if len(s.Spool) > 0 && s.At.Sub(s.Spool[0].Made) > longInSpool {
		all = append(all, fmt.Sprintf("batch %s has waited for the service since %s", s.Spool[0].ID, s.Spool[0].Made.Format(time.RFC3339)))
	}
	if off := s.Clock.Wrong(); off != 0 {
		all = append(all, fmt.Sprintf("this machine's clock differs from the manager's by %v", off))
	}
	if why := unreached(s); why != "" {
		all = append(all, why)
	}
	if f := s.Forecast; f != nil && f.Done.IsZero() {
		all = append(all, "the known pages cannot be visited within a year in this window")
	}
	return all
}

// unreached warns if half of the hosts or more cannot be reached while the window is open; "": no
// warning.
func unreached(s *control.Status) string {
	if !s.Open || s.LeftOut == 0 || 2*s.LeftOut < s.Hosts {
		return ""
	}
	return fmt.Sprintf("%d of %d hosts cannot be reached: is the network as it should be?", s.LeftOut, s.Hosts)
}

// saveStatus writes the status for when the robot does not run, and the bytes that it has used.
func (r *Robot) saveStatus() error {
	s, err := r.status(0)
	if err != nil {
		return err
	}
	return errors.Join(control.SaveStatus(r.cfg.DataDir, &s), r.manners.Admission.SaveUsage())
}

// logStatistics logs how busy the stages are.
func (r *Robot) logStatistics() error {
	s, err := r.status(0)
	if err == nil {
		control.LogStatistics(&s, r.log)
	}
	return err
}
