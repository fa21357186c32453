package robotd

import (
	"context"
	"errors"
	"fmt"
	"sheaf/robotd/client"
	"time"
)

// Bounds of the wait for the first list of hosts, without which there is nothing to do.
const (
	listWait    = time.Second // after the first failure, doubled with each further one
	listWaitMax = time.Minute
	onceWait    = 10 * time.Minute // after which a robot that runs once gives up
)

// hasList reports whether the manager has ever given a list.
func (r *Robot) hasList() bool {
	return r.list.Known()
}

// awaitList waits until there is a list of hosts, however long the service is away, and says
// what it waits for. With patience it gives up after that time, or at once where the service's
// answer makes waiting vain, with an error that says what to do.
func (r *Robot) awaitList(ctx context.Context, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for wait := listWait; !r.hasList(); wait = min(2*wait, listWaitMax) {
		r.asking.Lock()
		err := r.subscribed(ctx)
		if err == nil {
			err = r.refresh(ctx)
		}
		r.asking.Unlock()
		if r.hasList() {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		why, vain := r.whyNoList(err)
		if patience > 0 && (vain || !time.Now().Add(wait).Before(deadline)) {
			return why
		}
		if err == nil || vain {
			err = why
		}
		r.log.Warn("waiting for the service and its list of hosts", "again", wait, "error", err)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// whyNoList says what is wrong and what to do, and whether only people can mend it. Asking gave err.
func (r *Robot) whyNoList(err error) (_ error, vain bool) {
	if advice, yes := client.Advice(err); yes {
		return fmt.Errorf("%w; %s", err, advice), true
	}
	if err != nil {
		return fmt.Errorf("no list of hosts: the service at %s does not answer: is it running, is the setting manager right, does the way there need a proxy? robotd check tries it: %w", r.manager, err), false
	}
	return errNoList, false
}

var errNoList = errors.New("the service has assigned no hosts to this robot yet; its operator adds some with sheaf host add")
