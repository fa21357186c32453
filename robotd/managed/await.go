package managed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sheaf/internal/loop"
	"sheaf/robotd/client"
)

// Times between two questions for the first list of hosts, without which there is nothing to do.
const (
	listWait    = time.Second // after the first question, doubled with each further one
	listWaitMax = time.Minute
)

// ErrNoList is the error of a robot that has no list of hosts.
var ErrNoList = errors.New("the service has assigned no hosts to this robot yet; its operator adds some with sheaf host add")

// AwaitList waits until there is a list of hosts, and logs why there is none. If patience is not
// zero, it gives up after that time, or as soon as the service's answer shows that waiting does not
// help. Its error then says what to do.
func (s *Session) AwaitList(ctx context.Context, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for wait := listWait; !s.opt.List.List().Known(); wait = min(2*wait, listWaitMax) {
		err := s.subscribeAndRefresh(ctx)
		if s.opt.List.List().Known() {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		why, vain := s.whyNoList(err)
		if patience > 0 && (vain || !time.Now().Add(wait).Before(deadline)) {
			return why
		}
		if err == nil || vain {
			err = why
		}
		s.opt.Log.WarnContext(ctx, "waiting for the service and its list of hosts", "again", wait, "err", err)
		if !loop.Pause(ctx, wait) {
			return ctx.Err()
		}
	}
	return nil
}

func (s *Session) subscribeAndRefresh(ctx context.Context) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	if err := s.subscribe(ctx); err != nil {
		return err
	}
	return s.Refresh(ctx)
}

// whyNoList returns the error to show when there is no list. err is the error of asking the
// service. vain reports whether only a person can help.
func (s *Session) whyNoList(err error) (why error, vain bool) {
	if advice, needed := client.Advice(err); needed {
		return fmt.Errorf("%w; %s", err, advice), true
	}
	if err != nil {
		return fmt.Errorf("no list of hosts: the service at %s does not answer: is it running, is the setting manager right, does the way there need a proxy? robotd check tries it: %w", s.opt.Client, err), false
	}
	return ErrNoList, false
}
