package robotd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"sheaf/internal/loop"
	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/update"
)

// reportAgain is the time between two tries to report to a manager that does not answer.
const reportAgain = time.Minute

// UpdateDir is the folder of package update in a robot's folder.
func UpdateDir(data string) string { return filepath.Join(data, "update") }

// program keeps the robot's program up to date.
type program struct {
	dir      string // the data folder
	settings config.Update
	poll     time.Duration
	id       *client.Identity
	keys     *serviceKeys
	client   *client.Client
	updater  *update.Updater
	wanted   chan struct{} // has an element when the manager is to be asked for a release
	log      *slog.Logger
}

func newProgram(cfg *config.Config, id *client.Identity, keys *serviceKeys, manager *client.Client, web *http.Client, log *slog.Logger) *program {
	return &program{
		dir: cfg.DataDir, settings: cfg.Update, poll: cfg.Poll, id: id, keys: keys, client: manager, wanted: make(chan struct{}, 1), log: log,
		updater: &update.Updater{Dir: UpdateDir(cfg.DataDir), Base: manager.URL(), Client: web},
	}
}

// open finds the supervisor, if one runs this program, and parses the release key, if it is known.
func (p *program) open() (err error) {
	if p.updater.Parent, err = update.FindParent(); err != nil {
		return err
	}
	if key := p.releaseKey(); key != "" {
		if p.updater.Key, err = wire.ParseReleaseKey(key); err != nil {
			return settings.Wrong("update.key", key, err.Error())
		}
	}
	return nil
}

// keep asks the manager for new keys of the service and reports to it which program this is, at the
// start and at every poll. It takes the releases that the manager offers. It ends with
// update.ErrStaged when a new program is to be started.
func (p *program) keep(ctx context.Context) error {
	if err := p.open(); err != nil {
		return err
	}
	for {
		wait := p.poll
		if err := p.keys.learn(ctx); err != nil && ctx.Err() == nil {
			wait = min(wait, reportAgain)
			p.log.WarnContext(ctx, "the service's keys", "err", err)
		}
		answer, err := p.report(ctx)
		if err != nil {
			wait = min(wait, reportAgain)
		} else if err = p.learnReleaseKey(answer.Key); err == nil && answer.Release != "" {
			err = p.take(ctx, answer.Offer)
		}
		if errors.Is(err, update.ErrStaged) {
			p.log.InfoContext(ctx, "ending, for a new program", "release", err)
			return err
		}
		if err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "program", "program_version", Version, "err", err)
		}
		if err := p.warnStale(); err != nil {
			return err
		}
		if !loop.Wait(ctx, wait, p.wanted) {
			return ctx.Err()
		}
	}
}

// askNow makes keep ask the manager for a release now. It may be called concurrently.
func (p *program) askNow() {
	loop.Offer(p.wanted, struct{}{})
}

func (p *program) releaseKey() string { return cmp.Or(p.settings.Key, p.id.ReleaseKey) }

// learnReleaseKey takes the release key that the manager sends to a robot that joined before the
// service had such a key. The key must be signed by the service that was joined. A known key is
// never replaced.
func (p *program) learnReleaseKey(signed *wire.SignedReleaseKey) error {
	if signed == nil || p.releaseKey() != "" {
		return nil
	}
	if signed.Verify(p.id.Robot, p.id.ServiceKeys()...) != nil {
		return errors.New("the manager sent a release key that the service which was joined did not sign; it is not taken")
	}
	key, err := wire.ParseReleaseKey(signed.Key)
	if err != nil {
		return fmt.Errorf("the manager's release key: %w", err)
	}
	if err := p.id.LearnReleaseKey(p.dir, signed.Key); err != nil {
		return err
	}
	p.updater.Key = key
	p.log.Info("learnt the key that releases are signed with", "key", signed.Key)
	return nil
}

// take takes a release that the manager offers, if the settings allow it and a supervisor runs this
// program.
func (p *program) take(ctx context.Context, offer wire.Offer) error {
	switch {
	case !p.settings.Enabled:
		return nil
	case !p.updater.Parent.Supervised():
		p.log.WarnContext(ctx, "a release waits, but is not taken: robotd supervise does not run this program")
		return nil
	case p.releaseKey() == "":
		return errors.New("a release waits, but there is no key to verify it with, and the manager sent none: set update.key")
	}
	p.updater.Base = p.client.URL() // which made the offer
	return p.updater.Take(ctx, offer)
}

// warnStale warns if no release has come since the last one expired.
func (p *program) warnStale() error {
	since, stale, err := update.Stale(p.updater.Dir, time.Now())
	if stale {
		p.log.Warn("the newest release that was heard of has expired; ask the operators whether there is a newer one", "since", since)
	}
	return err
}

// report tells the manager which program this is, and then the supervisor that this worked. The
// manager's answer may offer a release.
func (p *program) report(ctx context.Context) (answer wire.ReportAnswer, err error) {
	report, err := p.updater.Report(Version)
	if err != nil {
		return answer, err
	}
	report.NoKey = p.releaseKey() == ""
	if answer, err = p.client.Report(ctx, report); err != nil {
		return answer, err
	}
	return answer, p.updater.Parent.Reported()
}

// VerifyRelease verifies a release's text and signature with the key that the robot in cfg's folder
// trusts.
func VerifyRelease(cfg config.Config, text, signature []byte) (*wire.Release, error) {
	id, err := client.LoadIdentity(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	key, err := wire.ParseReleaseKey(cmp.Or(cfg.Update.Key, id.ReleaseKey))
	if err != nil {
		return nil, err
	}
	return wire.OpenRelease(text, signature, key, time.Now())
}
