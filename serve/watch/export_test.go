package watch

import "context"

// Sign is what a webhook's receiver computes.
var Sign = sign

// LookAll reads the feed to its end.
func LookAll(ctx context.Context, s *Watches) error {
	for {
		if more, err := s.step(ctx); err != nil || !more {
			return err
		}
	}
}

// DeliverAll sends all that is due.
func DeliverAll(ctx context.Context, s *Watches) error {
	for {
		if n, err := s.deliverDue(ctx); err != nil || n == 0 {
			return err
		}
	}
}
