package robotd

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sheaf/internal/wire"
	"sheaf/robotd/client"
)

// serviceKeys has the keys of its service that the robot knows, and learns the next keys from the
// manager. It is a wire.Verifier. Its methods may be called concurrently.
type serviceKeys struct {
	dir    string // the data folder
	id     *client.Identity
	client *client.Client
	log    *slog.Logger

	asking sync.Mutex // held while the manager is asked, so that each question is about the newest known key
	vain   time.Time  // when Verify last asked and learnt nothing; asking guards it
}

// askAgain is the time for which Verify does not ask again after it learnt nothing: a robot that
// cannot follow has many batches, and looks for the receipt of each.
const askAgain = 10 * time.Second

// errStatement says that a statement of the manager does not lead from the robot's key to another.
var errStatement = errors.New("a statement about the service's next key is not taken")

// learn asks the manager for the keys that come after the newest known one, until the manager has
// no more. Its last question tells the manager which key the robot has.
func (k *serviceKeys) learn(ctx context.Context) error {
	k.asking.Lock()
	defer k.asking.Unlock()
	return k.learnLocked(ctx)
}

// learnLocked is learn for callers that hold asking.
func (k *serviceKeys) learnLocked(ctx context.Context) error {
	for {
		statements, err := k.client.ServiceKeys(ctx, k.id.NewestServiceKey())
		if err != nil {
			return err
		}
		changed, err := k.id.Follow(k.dir, statements)
		if err != nil {
			return fmt.Errorf("%w: %w", errStatement, err)
		}
		if !changed {
			return nil
		}
		k.log.InfoContext(ctx, "learnt a key of the service", "key", hex.EncodeToString(k.id.NewestServiceKey()))
	}
}

// Verify calls open with the service's keys. If open finds that none has signed, Verify learns the
// next keys, and calls open again if there are any.
func (k *serviceKeys) Verify(ctx context.Context, open func(keys ...ed25519.PublicKey) error) error {
	newest := k.id.NewestServiceKey()
	err := open(k.id.ServiceKeys()...)
	if !errors.Is(err, wire.ErrSignature) {
		return err
	}
	failed := k.learnFor(ctx, newest)
	switch {
	case errors.Is(failed, errStatement):
		return errors.Join(err, failed)
	case failed != nil: // the signature may be right, so the error is not that it is wrong
		return fmt.Errorf("%v (whether the service has another key could not be asked: %w)", err, failed)
	}
	if !k.id.NewestServiceKey().Equal(newest) {
		err = open(k.id.ServiceKeys()...)
	}
	if errors.Is(err, wire.ErrSignature) {
		return fmt.Errorf("%w that this robot knows of its service; if the operators have replaced a stolen key, the robot has to be joined again", err)
	}
	return err
}

// learnFor learns the keys after newest, unless they are known by now or were asked for just now.
func (k *serviceKeys) learnFor(ctx context.Context, newest ed25519.PublicKey) error {
	k.asking.Lock()
	defer k.asking.Unlock()
	if !k.id.NewestServiceKey().Equal(newest) || time.Since(k.vain) < askAgain {
		return nil
	}
	err := k.learnLocked(ctx)
	if err == nil && k.id.NewestServiceKey().Equal(newest) {
		k.vain = time.Now()
	}
	return err
}
