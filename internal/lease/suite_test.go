package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"sheaf/internal/lease"
	"sheaf/internal/testkit"
)

func TestMain(m *testing.M) { testkit.InMemory(m) }

// suite is the tests that every Locker must pass. open returns the Locker of one more process;
// asked returns how many clients hold a name or wait for it.
func suite(t *testing.T, asked func(name string) int, open func(*testing.T) lease.Locker) {
	t.Run("turns", func(t *testing.T) {
		j := &judge{t: t, random: testkit.Random(t)}
		var all sync.WaitGroup
		const clients, each = 4, 5
		for n := range clients {
			l := open(t)
			all.Go(func() { j.contend(t.Context(), fmt.Sprint("client ", n), l, each) })
		}
		all.Wait()
		if n := j.count(); n != clients*each {
			t.Errorf("%d turns, want %d", n, clients*each)
		}
		// A client that asks again is behind all who wait: at most three, and one more may ask
		// before it does.
		if n := j.starved(); n > 2*clients {
			t.Errorf("one client waited for %d turns of others", n)
		}
	})
	t.Run("error", func(t *testing.T) {
		bad := errors.New("bad")
		if err := open(t).Do(t.Context(), "error", func(context.Context, int64) error { return bad }); err != bad {
			t.Errorf("got %v, want the work's own error", err)
		}
	})
	t.Run("order", func(t *testing.T) { testOrder(t, asked, open) })
	t.Run("names", func(t *testing.T) {
		l := open(t)
		err := l.Do(t.Context(), "one", func(ctx context.Context, _ int64) error {
			return l.Do(ctx, "two", func(context.Context, int64) error { return nil })
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("cancel", func(t *testing.T) { testCancel(t, asked, open) })
	t.Run("raise", func(t *testing.T) {
		l := open(t)
		var last int64
		take := func() (token int64) {
			testkit.Must(t, l.Do(t.Context(), "raise", func(_ context.Context, n int64) error { token = n; return nil }))
			if token <= last {
				t.Errorf("token %d after %d", token, last)
			}
			last = token
			return token
		}
		take()
		for _, least := range []int64{1_000_000, 10, 2_000_000} { // 10 has no effect
			testkit.Must(t, l.Raise(t.Context(), "raise", least))
			if n := take(); n <= least {
				t.Errorf("token %d, raised to %d", n, least)
			}
		}
	})
}

// testOrder: waiters get the name in the order in which they asked.
func testOrder(t *testing.T, asked func(name string) int, open func(*testing.T) lease.Locker) {
	var mu sync.Mutex // guards order
	var order []int
	var all sync.WaitGroup
	go1 := make(chan struct{})
	holding := make(chan struct{})
	first := open(t)
	all.Go(func() {
		testkit.Must(t, first.Do(t.Context(), "order", func(context.Context, int64) error { close(holding); <-go1; return nil }))
	})
	<-holding
	for n := range 4 {
		l := open(t)
		all.Go(func() {
			testkit.Must(t, l.Do(t.Context(), "order", func(context.Context, int64) error {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, n)
				return nil
			}))
		})
		testkit.Until(t, "the next has asked", func() bool { return asked("order") == n+2 })
	}
	close(go1)
	all.Wait()
	if fmt.Sprint(order) != "[0 1 2 3]" {
		t.Errorf("came in the order %v", order)
	}
}

// testCancel: a waiter whose context ends does not delay the others.
func testCancel(t *testing.T, asked func(name string) int, open func(*testing.T) lease.Locker) {
	holder, quitter, next := open(t), open(t), open(t)
	err := holder.Do(t.Context(), "cancel", func(ctx context.Context, _ int64) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		quit := make(chan error, 1)
		go func() {
			quit <- quitter.Do(ctx, "cancel", func(context.Context, int64) error {
				t.Error("two clients hold the lease")
				return nil
			})
		}()
		testkit.Until(t, "the other waits", func() bool { return asked("cancel") == 2 })
		cancel()
		if err := testkit.Receive(t, "the waiter's end", quit); !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter gets %v", err)
		}
		return nil
	})
	testkit.Must(t, err)
	testkit.Must(t, next.Do(t.Context(), "cancel", func(context.Context, int64) error { return nil }))
}
