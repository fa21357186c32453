package mailer

import (
	"context"
	"time"
)

// At sets the outbox's clock.
func (o *Outbox) At(now func() time.Time) { o.now = now }

// SendDue sends what is due.
func (o *Outbox) SendDue(ctx context.Context) error { return o.sendDue(ctx) }
