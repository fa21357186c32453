package removal

import (
	"context"
	"time"
)

// At sets the desk's clock.
func (d *Desk) At(now func() time.Time) { d.now = now }

// Tidy does what Run does at each look.
func (d *Desk) Tidy(ctx context.Context) error { return d.tidy(ctx) }
