package robotd

import (
	"context"

	"sheaf/robotd/status"
)

// Subscribe tells the manager that the robot takes part (P5), so that it is given
// hosts. Run does so by itself, until the manager has heard it.
func (r *Robot) Subscribe(ctx context.Context) error {
	r.asking.Lock()
	defer r.asking.Unlock()
	return r.subscribed(ctx)
}

// subscribed subscribes, unless the manager has heard it in this run. The caller holds r.asking.
func (r *Robot) subscribed(ctx context.Context) error {
	if r.here {
		return nil
	}
	err := r.manager.Subscribe(ctx)
	r.here = err == nil
	return err
}

// Status is what the robot says of itself now, without its hosts. It may be called at any time.
func (r *Robot) Status() (status.Status, error) { return r.status(0) }
