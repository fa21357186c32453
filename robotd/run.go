package robotd

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

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
