package account

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// VeilAt returns what the rules hid from a reader at a time that has passed; nil: nothing.
func (x *Rules) VeilAt(ctx context.Context, a *Account, scope Scope, at time.Time) (*Veil, error) {
	if x == nil {
		return nil, nil
	}
	rules, past, err := x.all(ctx)
	if err != nil {
		return nil, err
	}
	held := slices.DeleteFunc(slices.Concat(rules, past), func(r storedRules) bool {
		return r.Created.After(at) || !r.Removed.IsZero() && !r.Removed.After(at)
	})
	return newVeil(held, a, scope, at), nil
}

// Turn says that rules began or ceased to hide something at Place and below. It concerns editions
// that were published after From, up to To.
type Turn struct {
	Place    string
	From, To time.Time
}

// Turns returns where rules began or ceased to hide something from a reader, after the time from
// and up to the time to. It may return other places too.
func (x *Rules) Turns(ctx context.Context, a *Account, scope Scope, from, to time.Time) (turns []Turn, err error) {
	if x == nil {
		return nil, nil
	}
	rules, past, err := x.all(ctx)
	for _, r := range slices.Concat(rules, past) {
		place, _ := r.place()
		if r.openTo(a) || len(scope.Under(place)) == 0 || r.Created.After(to) || !r.Removed.IsZero() && !r.Removed.After(from) {
			continue
		}
		within := func(t time.Time) bool { return t.After(from) && !t.After(to) }
		switch {
		case within(r.Created), within(r.Removed), within(r.Until):
			turns = append(turns, Turn{place, time.Time{}, to})
		case r.Days > 0:
			turns = append(turns, Turn{place, r.since(from), r.since(to)})
		}
	}
	return turns, err
}

// Mark returns a cache key that changes when rules are added or removed.
func (x *Rules) Mark(ctx context.Context) (string, error) {
	if x == nil {
		return "", nil
	}
	rules, past, err := x.all(ctx)
	return fmt.Sprintf("%d %d", len(rules), len(past)), err
}
