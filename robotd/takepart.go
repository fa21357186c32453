package robotd

import "context"

// Subscribe tells the manager that the robot takes part (P5), so that it is given
// hosts. Run does so by itself.
func (r *Robot) Subscribe(ctx context.Context) error { return r.manager.subscribe(ctx) }

// Status is what the robot says of itself now. It may be called at any time.
func (r *Robot) Status() (Status, error) { return r.status() }
