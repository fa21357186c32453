package crawl

import (
	"fmt"
	"time"

	"sheaf/robotd/batch"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
	"sheaf/robotd/page"
	"sheaf/robotd/polite"
	"sheaf/robotd/revisit"
)

// Manners are what keeps the robot polite. They outlast a crawl.
type Manners struct {
	Agent      string // the User-Agent
	Gate       *polite.Gate
	Admission  *polite.Admission
	Lease      *polite.Lease // nil: there is no end
	Moves      *polite.Moves // nil: hosts may move as they like
	Restraints *polite.Restraints
	Turns      *polite.SharedTurns
	Intervals  *polite.Intervals
	Shortest   *polite.Intervals // the shortest intervals that operators allow
	Rules      *polite.Rules
	Shared     *polite.Library
}

// Tap is given the records as they are stored, if it is active.
type Tap interface {
	Active() bool
	Offer(record []byte)
}

// Records are where a crawl reads what to fetch and writes what it has found. They outlast a crawl.
type Records struct {
	Frontier *frontier.Frontier
	Batches  *batch.Store
	Ledger   *batch.Ledger
	Journal  *client.CollectionLog
	Found    *client.Found
	Watched  *revisit.Pages
	Tap      Tap // nil: there is none
	Tally    *Tally
}

// Pipeline has the three stages of one crawl, and what they share: runs.go shows how a page goes
// through them.
type Pipeline struct {
	parts    *Parts
	hosts    *Hosts
	hours    *revisit.Hours
	resting  map[string][]string // assigned hosts that are not in this crawl, with their seeds
	patience *patience
	judge    *judge
	requests *requests
	stop     func(error) // is called with the error of a disk that does not work
	ended    func()      // is called after each run

	runs      *runs
	fetcher   *fetching
	extractor *extracting
	storer    *storing

	fetching, extracting, storing *stage // the queues of these three, and their workers

	began time.Time
}

// newPipeline returns a pipeline without hosts.
func newPipeline(parts *Parts, hours *revisit.Hours, resting map[string][]string, stop func(error), ended func()) *Pipeline {
	cfg, man := parts.Settings, &parts.Manners
	hosts := &Hosts{gate: man.Gate, restraints: man.Restraints, turns: man.Turns, intervals: man.Intervals, shortest: man.Shortest,
		set: parts.List.Interval, setShortest: parts.List.Shortest, hosts: make(map[string]*Host)}
	p := &Pipeline{
		parts: parts, hosts: hosts, hours: hours, resting: resting, judge: &judge{parts.Sketcher}, stop: stop, ended: ended, began: time.Now(),
		patience:   &patience{interval: cfg.Interval, due: hours.Round.Due, hosts: hosts, restraints: man.Restraints},
		fetching:   newStage("fetch", config.Module{Workers: cfg.Concurrency}),
		extracting: newStage("extract", cfg.Modules.Extract),
		storing:    newStage("store", cfg.Modules.Store),
	}
	p.runs = &runs{parts: parts, pipe: p, pool: newWorkerPool(cfg.Concurrency), backlog: &backlog{shrinks: make(chan struct{}, 1)}}
	p.runs.watchdog = newWatchdog(cfg.Page.Stall, p.runs.lose, p.runs.waits)
	p.requests = &requests{parts, p.runs.watchdog}
	p.fetcher = &fetching{parts, p, &robots{parts, p}}
	p.extractor = &extracting{parts, p}
	p.storer = &storing{parts, p}
	return p
}

// fail ends a turn for an error of this machine, such as a full disk, and the crawl if the robot
// cannot go on with it.
func (p *Pipeline) fail(t *turn, err error) {
	t.failed = true
	if err = p.parts.Manners.Admission.Tolerate(err); err != nil {
		p.stop(fmt.Errorf("%s: %w", t.name, err))
	}
}

// Hosts returns the hosts of the crawl.
func (p *Pipeline) Hosts() *Hosts { return p.hosts }

// Relink queues those links of a stored page that are followed, as if the page had just been
// fetched.
func (p *Pipeline) Relink(h *Host, links []page.Link) error {
	t := &turn{name: h.Name, host: h}
	for i := range links {
		p.extractor.followLink(t, &links[i], 1)
	}
	return p.storer.queue(t)
}

// describe adds the stages. due is how many hosts may be visited now, and late how many of them
// have been due for long.
func (p *Pipeline) describe(s *Progress, now time.Time, due, late int) {
	extracting, storing := len(p.extracting.in), len(p.storing.in)
	for _, m := range []struct {
		*stage
		queue int
		late  int // how many of the queue may have waited for long
	}{{p.fetching, due, late}, {p.extracting, extracting, extracting}, {p.storing, storing, storing}} {
		s.Modules = append(s.Modules, m.describe(m.queue))
		if m.stuck(m.late, p.began, p.Patience(), now) {
			s.Troubles = append(s.Troubles, fmt.Sprintf("module %s: %d wait and nothing has passed for %v", m.name, m.late, p.Patience()))
		}
	}
}

// Patience returns for how long nothing may pass while something waits. Each fetch ends within it.
func (p *Pipeline) Patience() time.Duration {
	return p.parts.Settings.Page.Timeout + p.parts.Settings.Page.Stall
}

// FetchTime returns how long a fetch takes on average.
func (p *Pipeline) FetchTime() time.Duration {
	n := p.fetching.passed.Load()
	if n == 0 {
		return 0
	}
	return time.Duration(p.fetching.busy.Load() / n)
}
