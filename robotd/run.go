package robotd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/deploy"
	"sheaf/internal/loop"
	"sheaf/internal/preference"
	"sheaf/internal/settings"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
)

// onceWait is how long a robot that runs once waits for its first list of hosts.
const onceWait = 10 * time.Minute

// Join joins a service: the data folder becomes that of a robot. It returns the robot's name; see
// client.Join.
func Join(ctx context.Context, manager, token, dir string) (string, error) {
	return client.Join(ctx, manager, token, dir, Version)
}

// Run runs the daemon until ctx ends or, with Config.Once, until one cycle is published. The end of
// ctx is no error.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger) (err error) {
	r, err := New(cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	server := control.Server{
		Dir: cfg.DataDir, Metrics: cfg.Metrics, Status: r.status, SetPaused: r.manners.Admission.SetPaused, Log: r.log,
	}
	stop, err := server.Start()
	if err != nil {
		return err
	}
	defer stop()
	if r.hands != nil {
		if _, err := r.hands.Listen(cfg.Hands.Listen); err != nil {
			return settings.Wrong("hands.listen", cfg.Hands.Listen, err.Error())
		}
	}
	defer func() { err = errors.Join(err, r.saveStatus()) }()
	if err := r.session.Beat(ctx); err != nil { // the answer may pause the robot
		return err
	}
	if cfg.Once {
		if err := r.session.AwaitList(ctx, onceWait); err != nil {
			return err
		}
		if err := r.Cycle(ctx); err != nil {
			return err
		}
		return r.Drain(ctx)
	}
	return r.Work(ctx)
}

// Work begins cycles when they are due, uploads batches, and tells the manager how the robot is,
// until ctx ends, which is no error. Then it seals what was collected.
func (r *Robot) Work(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.uploader.Run(ctx) })
	g.Go(func() error { return r.runCycles(ctx) })
	g.Go(func() error { return r.program.keep(ctx) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return r.seal(context.WithoutCancel(ctx))
}

// Subscribe tells the manager that the robot takes part, so that it is given hosts. Run subscribes,
// too.
func (r *Robot) Subscribe(ctx context.Context) error { return r.session.Subscribe(ctx) }

// Leave takes a stopped robot off the manager's list (P5), so that its hosts go to others at once,
// and uploads what it still has. It may be repeated.
func Leave(ctx context.Context, cfg config.Config, log *slog.Logger) (err error) {
	r, err := New(cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.seal(ctx); err != nil { // under the list by which it was collected
		return err
	}
	if err := r.session.Leave(ctx); err != nil {
		return err
	}
	r.session.HandIn(ctx)
	return r.Drain(ctx)
}

// Rounds are the times between two rounds of the chores that have no setting.
type Rounds struct {
	Status     time.Duration // the status is written to its file
	Size       time.Duration // a batch that has reached its size is sealed
	Room       time.Duration // disk and spool are measured
	Express    time.Duration // changes of watched pages are handed in
	QueueDue   time.Duration // watched pages that are due are queued
	Checkpoint time.Duration // what was collected is made durable
}

// UsualRounds returns the rounds of every daemon. Tests of whole days make fewer rounds.
func UsualRounds() Rounds {
	return Rounds{
		Status: time.Minute, Size: 2 * time.Second, Room: 2 * time.Second,
		Express: 2 * time.Second, QueueDue: 2 * time.Second, Checkpoint: 30 * time.Second,
	}
}

// withChores runs fn with the robot's chores beside it. The chores end with fn; a chore that fails
// ends fn.
func (r *Robot) withChores(ctx context.Context, fn func(context.Context) error) error {
	others := []func(context.Context) error{func(ctx context.Context) error { return r.manners.Admission.Watch(ctx, r.seal) }}
	for _, chore := range r.chores() {
		others = append(others, func(ctx context.Context) error {
			for loop.Pause(ctx, time.Until(chore.next(time.Now()))) {
				if err := chore.do(ctx); err != nil && ctx.Err() == nil {
					if err := r.manners.Admission.Tolerate(err); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return beside(ctx, fn, others...)
}

// chore is something to be done again and again. next returns the next time after now.
type chore struct {
	next func(now time.Time) time.Time
	do   func(context.Context) error
}

func (r *Robot) chores() []chore {
	cfg, rounds := &r.cfg, &r.world.rounds
	queueDue := rounds.QueueDue
	if r.records.Watched.Active() {
		queueDue = min(queueDue, cfg.Watch.Every)
	}
	all := []chore{
		{r.session.NextAsk, r.session.Ask},
		{r.plan.NextLog, func(ctx context.Context) error { r.session.HandIn(ctx); return nil }},
	}
	every := func(d time.Duration, do func(context.Context) error) {
		if d > 0 {
			all = append(all, chore{func(now time.Time) time.Time { return now.Add(d) }, do})
		}
	}
	every(cfg.Heartbeat, r.session.Beat)
	every(cfg.Heartbeat, r.session.AskWatches)
	every(min(rounds.Express, cfg.Express), func(ctx context.Context) error { return r.sealExpress(ctx, cfg.Express) })
	every(queueDue, func(ctx context.Context) error {
		if r.crawler.MayBeDue() {
			return r.crawler.QueueDue(ctx)
		}
		return nil
	})
	every(rounds.QueueDue, r.session.TellMoves)
	every(rounds.Size, func(ctx context.Context) error {
		if r.records.Batches.Size() < cfg.Batch.Size {
			return nil
		}
		return r.seal(ctx)
	})
	every(rounds.Room, func(context.Context) error { return r.manners.Admission.Look() })
	every(rounds.Checkpoint, r.crawler.Checkpoint)
	every(time.Hour, func(context.Context) error { return r.servers.Save() })
	every(rounds.Status, func(context.Context) error { return r.saveStatus() })
	every(cfg.Statistics, func(context.Context) error { return r.logStatistics() })
	return all
}

// DefaultConfig returns the settings that hold where the operator gives none.
func DefaultConfig() config.Config {
	c := config.Config{
		Revisit: config.Revisit{QuickHours: true},
		Batch:   config.Batch{Level: 6},
		Network: config.Network{Relearn: time.Hour},
	}
	settings.Defaults(&c, deploy.Robotd)
	return c
}

// LoadConfig reads the settings from a YAML file (none if file is empty), the environment
// (ROBOTD_UPLOAD_POLL for upload.poll) and overrides by key, the later the stronger. It refuses
// unknown keys; Config.Check checks the values.
func LoadConfig(file string, overrides map[string]any) (config.Config, error) {
	cfg := DefaultConfig()
	err := settings.Load(&cfg, settings.Source{File: file, Prefix: "ROBOTD", Overrides: overrides})
	return cfg, err
}

// userAgent returns the User-Agent of a robot with the settings.
func userAgent(cfg *config.Config) string {
	return fmt.Sprintf("%s/%s (+%s)", preference.Robot, Version, cfg.Contact)
}

// Bounds of the garbage in the heap, in percent of the memory in use.
const (
	leastGarbage = 25
	mostGarbage  = 200
)

// garbageBytes is how many unused bytes gather before a collection.
const garbageBytes = 8 << 20

// HoldMemory keeps the process small. The heap grows by about 8 MiB beyond the memory in use before
// it is collected, and the whole process seldom beyond the limit in bytes; 0: no limit. Go's own
// rule wastes processor time on a robot of a hundred hosts and memory on one of ten thousand. GOGC
// and GOMEMLIMIT in the environment have priority over the settings. HoldMemory is for a process
// that is only a robot. The returned function ends it and restores what was set before.
func HoldMemory(limit int64) (stop func()) {
	before := int64(-1) // it was not changed
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		before = debug.SetMemoryLimit(limit)
	}
	end := loop.GarbageOf(garbageBytes, leastGarbage, mostGarbage).Hold()
	return func() {
		if end(); before >= 0 {
			debug.SetMemoryLimit(before)
		}
	}
}
