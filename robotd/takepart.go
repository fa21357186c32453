package robotd

import (
	"context"

	"sheaf/robotd/status"
)

// Subscribe tells the manager that the robot takes part (P5), so that it is given
// hosts. Run does so by itself.
func (r *Robot) Subscribe(ctx context.Context) error { return r.manager.subscribe(ctx) }

// Status is what the robot says of itself now, without its hosts. It may be called at any time.
func (r *Robot) Status() (status.Status, error) { return r.status(0) }
