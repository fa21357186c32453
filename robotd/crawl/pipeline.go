package crawl

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sheaf/robotd/batch"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/fetch"
	"sheaf/robotd/frontier"
	"sheaf/robotd/page"
	"sheaf/robotd/polite"
	"sheaf/robotd/revisit"
	"sheaf/robotd/status"
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
	Shortest   *polite.Intervals // how short they may get
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

// pipelineOptions are what a pipeline needs.
type pipelineOptions struct {
	Settings *config.Config
	Manners  Manners
	Records  Records
	Fetcher  *fetch.Fetcher // looks up hosts
	Source   fetch.Source   // gets pages
	Sketcher *page.Sketcher
	Hours    *revisit.Hours
	Interval func(host string) time.Duration // that an operator has set; 0: none
	Shortest func(host string) time.Duration // how short an operator lets it get; 0: none has said
	Omits    func(host, url string) bool     // the manager has this URL, in canonical form, left out
	Resting  map[string][]string             // assigned hosts that are not in this crawl, with their seeds
	Stop     func(error)                     // is called with the error of a disk that does not work
	Ended    func()                          // is called after each run
	Log      *slog.Logger
}

// Pipeline is the pipeline of one crawl.
type Pipeline struct {
	hosts      *Hosts
	runs       *runs
	fetching   *stage
	extracting *stage
	storing    *stage
	extractor  *extracting
	storer     *storing
	stall      time.Duration
	began      time.Time
	patience   time.Duration // every fetch ends within this time
}

// newPipeline returns a pipeline without hosts.
func newPipeline(opt pipelineOptions) *Pipeline {
	cfg, man, rec := opt.Settings, &opt.Manners, &opt.Records
	fail := func(t *turn, err error) {
		t.failed = true
		if err = man.Admission.Tolerate(err); err != nil {
			opt.Stop(fmt.Errorf("%s: %w", t.name, err))
		}
	}
	hosts := &Hosts{gate: man.Gate, restraints: man.Restraints, turns: man.Turns, intervals: man.Intervals, shortest: man.Shortest,
		set: opt.Interval, setShortest: opt.Shortest, hosts: make(map[string]*Host)}
	patience := &patience{interval: cfg.Interval, due: opt.Hours.Round.Due, hosts: hosts, restraints: man.Restraints}
	judge := &judge{opt.Sketcher}
	requests := &requests{source: opt.Source, fetcher: opt.Fetcher, lease: man.Lease}
	p := &Pipeline{
		hosts: hosts, began: time.Now(), patience: cfg.Page.Timeout + cfg.Page.Stall, stall: cfg.Page.Stall,
		fetching:   newStage("fetch", config.Module{Workers: cfg.Concurrency}),
		extracting: newStage("extract", cfg.Modules.Extract),
		storing:    newStage("store", cfg.Modules.Store),
		extractor: &extracting{
			settings: cfg.Page, record: cfg.Links, agent: man.Agent, judge: judge, hosts: hosts, resting: opt.Resting,
		},
		storer: &storing{
			settings: cfg.Page, hosts: hosts, frontier: rec.Frontier, batches: rec.Batches, tap: rec.Tap, ledger: rec.Ledger,
			journal: rec.Journal, found: rec.Found, watched: rec.Watched, hours: opt.Hours, patience: patience, tally: rec.Tally,
			fail: fail, log: opt.Log,
		},
	}
	fetching := &fetching{
		settings: cfg.Page, relearn: cfg.Network.Relearn, began: opt.Hours.Round.Began, agent: man.Agent, gate: man.Gate,
		requests: requests, judge: judge, hosts: hosts, moves: man.Moves, omits: opt.Omits, watched: rec.Watched, journal: rec.Journal, ledger: rec.Ledger,
		found: rec.Found, spend: man.Admission.Spend, fail: fail, log: opt.Log,
		robots: &robots{
			agent: man.Agent, kept: man.Rules, shared: man.Shared, gate: man.Gate, requests: requests, believed: cfg.Page.Rules,
			hosts: hosts, patience: patience, batches: rec.Batches, journal: rec.Journal, spend: man.Admission.Spend, fail: fail, log: opt.Log,
		},
	}
	p.runs = &runs{
		pages: opt.Hours.Pace.RunPages, agent: man.Agent, gate: man.Gate, source: opt.Source, admission: man.Admission, hosts: hosts,
		patience: patience, pool: newWorkerPool(cfg.Concurrency), backlog: &backlog{shrinks: make(chan struct{}, 1)},
		fetching: p.fetching, visit: fetching.visit, extract: p.extracting.in, ended: opt.Ended, stop: opt.Stop, fail: fail, log: opt.Log,
	}
	p.runs.watchdog = newWatchdog(p.stall, p.runs.lose, p.runs.waits)
	requests.watchdog = p.runs.watchdog
	return p
}

// Hosts returns the hosts of the crawl.
func (p *Pipeline) Hosts() *Hosts { return p.hosts }

// Run begins visits until beginning ends, which must end with ctx. When it returns, every turn that
// has begun is stored. The requests of turns are broken off if ctx ends.
func (p *Pipeline) Run(ctx, beginning context.Context) {
	p.storing.start(func(t *turn) {
		p.storer.store(t)
		p.runs.finish(t)
	})
	p.extracting.start(func(t *turn) {
		p.extractor.extract(t)
		p.storing.in <- t
	})
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var dog sync.WaitGroup
	dog.Go(func() { p.runs.watchdog.run(watching) })
	p.runs.dispatch(ctx, beginning)
	p.runs.pool.wait()
	p.extracting.finish()
	p.storing.finish()
	stop()
	dog.Wait()
}

// Relink queues those links of a stored page that are followed, as if the page had just been
// fetched.
func (p *Pipeline) Relink(h *Host, links []page.Link) error {
	t := &turn{name: h.Name, host: h}
	for i := range links {
		p.extractor.followLink(t, &links[i], 1)
	}
	return p.storer.queue(t)
}

// Describe adds the stages to a status. due hosts may be visited now, of which late have been due
// for long.
func (p *Pipeline) Describe(s *status.Status, due, late int) {
	extracting, storing := len(p.extracting.in), len(p.storing.in)
	for _, m := range []struct {
		*stage
		queue int
		late  int // of those, that may have waited for long
	}{{p.fetching, due, late}, {p.extracting, extracting, extracting}, {p.storing, storing, storing}} {
		s.Modules = append(s.Modules, m.describe(m.queue))
		if m.stuck(m.late, p.began, p.patience, s.At) {
			s.Troubles = append(s.Troubles, fmt.Sprintf("module %s: %d wait and nothing has passed for %v", m.name, m.late, p.patience))
		}
	}
}

// Patience returns for how long nothing may pass while something waits. Each fetch ends within it.
func (p *Pipeline) Patience() time.Duration { return p.patience }

// FetchTime returns how long a fetch takes on average.
func (p *Pipeline) FetchTime() time.Duration {
	n := p.fetching.passed.Load()
	if n == 0 {
		return 0
	}
	return time.Duration(p.fetching.busy.Load() / n)
}
