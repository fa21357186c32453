package robotd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"sheaf/internal/release"
	"sheaf/internal/settings"
	"sheaf/internal/wire"
	"sheaf/robotd/config"
	"sheaf/robotd/identity"
	"sheaf/robotd/update"
)

// reportAgain lies between two tries to report where the manager is away.
const reportAgain = time.Minute

// UpdateDir is the folder of package update in a robot's folder.
func UpdateDir(data string) string { return filepath.Join(data, "update") }

// keepProgram reports to the manager what program this is, at the start and at every
// poll, and takes the releases that it offers. It ends with update.ErrStaged when a new
// program is to be started.
func (r *Robot) keepProgram(ctx context.Context) error {
	u, err := r.updater()
	if err != nil {
		return err
	}
	for {
		wait := r.cfg.Poll
		answer, err := r.reportProgram(ctx, u)
		if err == nil {
			err = u.Parent.Reported()
		}
		if err != nil {
			wait = min(wait, reportAgain)
		} else {
			if err = r.learnReleaseKey(u, answer.Key); err == nil && answer.Release != "" {
				err = r.takeRelease(ctx, u, answer.Offer)
			}
			if errors.Is(err, update.ErrStaged) {
				r.log.Info("ending, for a new program", "release", err)
				return err
			}
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("program", "version", Version, "error", err)
		}
		if err := r.warnStale(u); err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-r.look:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// lookForRelease has the manager asked for a release now. It may be called at any time.
func (r *Robot) lookForRelease() {
	select {
	case r.look <- struct{}{}:
	default: // somebody asked already
	}
}

func (r *Robot) updater() (*update.Updater, error) {
	parent, err := update.FindParent()
	if err != nil {
		return nil, err
	}
	u := &update.Updater{Dir: UpdateDir(r.cfg.DataDir), Base: r.manager.URL(), Client: r.world.web, Parent: parent}
	if key := r.releaseKey(); key != "" {
		if u.Key, err = release.ParseKey(key); err != nil {
			return nil, settings.Wrong("update.key", key, err.Error())
		}
	}
	return u, nil
}

func (r *Robot) releaseKey() string { return cmp.Or(r.cfg.Update.Key, r.id.ReleaseKey) }

// learnReleaseKey takes the release key that the manager sends a robot that joined before there was one.
// It must be signed by the service that was joined. A key that is known is never replaced.
func (r *Robot) learnReleaseKey(u *update.Updater, signed *wire.SignedReleaseKey) error {
	if signed == nil || r.releaseKey() != "" {
		return nil
	}
	if !signed.Verify(r.id.Robot, r.id.ServerKey) {
		return errors.New("the manager sent a release key that the service which was joined did not sign; it is not taken")
	}
	key, err := release.ParseKey(signed.Key)
	if err != nil {
		return fmt.Errorf("the manager's release key: %w", err)
	}
	learnt := *r.id
	learnt.ReleaseKey = signed.Key
	if err := learnt.Save(r.cfg.DataDir); err != nil {
		return err
	}
	r.id.ReleaseKey, u.Key = signed.Key, key
	r.log.Info("learnt the key that releases are signed with", "key", signed.Key)
	return nil
}

func (r *Robot) takeRelease(ctx context.Context, u *update.Updater, offer wire.Offer) error {
	switch {
	case !r.cfg.Update.Enabled:
		return nil
	case !u.Parent.Supervised():
		r.log.Warn("a release waits, but is not taken: robotd supervise does not run this program")
		return nil
	case r.releaseKey() == "":
		return errors.New("a release waits, but there is no key to verify it with, and the manager sent none: set update.key")
	}
	u.Base = r.manager.URL() // which made the offer
	return u.Take(ctx, offer)
}

// warnStale says that no release has come since the last one expired.
func (r *Robot) warnStale(u *update.Updater) error {
	since, stale, err := update.Stale(u.Dir, time.Now())
	if stale {
		r.log.Warn("the newest release that was heard of has expired; ask the operators whether there is a newer one", "expired", since)
	}
	return err
}

func (r *Robot) reportProgram(ctx context.Context, u *update.Updater) (answer wire.ReportAnswer, err error) {
	report, err := u.Report(Version)
	if err != nil {
		return answer, err
	}
	report.NoKey = r.releaseKey() == ""
	return r.manager.Report(ctx, report)
}

// VerifyRelease verifies a release's text and signature with the key that the robot in
// cfg's folder trusts.
func VerifyRelease(cfg config.Config, text, signature []byte) (*release.Release, error) {
	id, err := identity.Load(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	key, err := release.ParseKey(cmp.Or(cfg.Update.Key, id.ReleaseKey))
	if err != nil {
		return nil, err
	}
	return release.Open(text, signature, key, time.Now())
}
