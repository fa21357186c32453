package watch

import "context"

// Sign is what a webhook's receiver computes.
var Sign = sign

// PublicOnly decides about each connection to a webhook.
var PublicOnly = publicOnly

// LookAll reads the feed to its end.
func LookAll(ctx context.Context, s *Watches) error { return all(ctx, s.follower.step) }

// DeliverAll sends all that is due.
func DeliverAll(ctx context.Context, s *Watches) error { return all(ctx, s.deliverer.deliverDue) }

func all(ctx context.Context, step func(context.Context) (bool, error)) error {
	for {
		if more, err := step(ctx); err != nil || !more {
			return err
		}
	}
}
