package account_test

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/serve/account"
)

// consumeFrom is consume from an address.
func consumeFrom(t *testing.T, ctx context.Context, wg *sync.WaitGroup, m *account.Meter, from string, l account.Limits) *atomic.Int64 {
	t.Helper()
	f, err := m.Begin(ctx, "anonymous", netip.MustParsePrefix(from), l)
	if err != nil {
		t.Fatal(err)
	}
	got := new(atomic.Int64)
	wg.Go(func() {
		defer f.Close()
		for {
			n, err := f.Take(ctx, l, 1<<20)
			if err != nil {
				return
			}
			got.Add(n)
		}
	})
	return got
}

// If many people use an account, each address gets the same, however many connections it has,
// whether the account's rate or the line's is the limit.
func TestAddressesShareTheirAccountsRate(t *testing.T) {
	for name, c := range map[string]struct {
		line   *account.Rates
		limits account.Limits
	}{
		"account": {nil, account.Limits{Rate: rates(t, "300KiB")}},
		"line":    {rates(t, "300KiB"), account.Limits{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := account.NewMeter(account.Options{Line: c.line})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				var many [20]*atomic.Int64
				for i := range many {
					many[i] = consumeFrom(t, ctx, &wg, m, "192.0.2.1/32", c.limits)
				}
				one := consumeFrom(t, ctx, &wg, m, "192.0.2.2/32", c.limits)
				other := consumeFrom(t, ctx, &wg, m, "2001:db8:0:1::/64", c.limits)
				time.Sleep(time.Second) // the first transfer has the burst of an idle pacer
				for _, n := range append(many[:], one, other) {
					n.Store(0)
				}
				time.Sleep(100 * time.Second)
				sum := 0.0
				for _, n := range many {
					near(t, "one of twenty connections", float64(n.Load()), 100*100<<10/20)
					sum += float64(n.Load())
				}
				near(t, "twenty connections", sum, 100*100<<10)
				near(t, "one connection", float64(one.Load()), 100*100<<10)
				near(t, "another", float64(other.Load()), 100*100<<10)
				cancel()
				wg.Wait()
			})
		})
	}
}

// No address gets more than its own rate, with concurrent or successive connections. Other
// addresses get what it cannot use.
func TestAddressesHaveARateOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := account.NewMeter(account.Options{})
		limits := account.Limits{Rate: rates(t, "100KiB"), Each: rates(t, "40KiB")}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var many [4]*atomic.Int64
		for i := range many {
			many[i] = consumeFrom(t, ctx, &wg, m, "192.0.2.1/32", limits)
		}
		short := new(atomic.Int64) // a connection for every 2,000 bytes
		wg.Go(func() {
			for ctx.Err() == nil {
				f, err := m.Begin(ctx, "anonymous", netip.MustParsePrefix("192.0.2.2/32"), limits)
				if err != nil {
					t.Error(err)
					return
				}
				for left := int64(2000); left > 0; {
					n, err := f.Take(ctx, limits, left)
					if err != nil {
						break
					}
					left -= n
					short.Add(n)
				}
				f.Close()
			}
		})
		time.Sleep(100 * time.Second)
		sum := 0.0
		for _, n := range many {
			sum += float64(n.Load())
		}
		near(t, "four connections", sum, 100*40<<10)
		near(t, "one connection after the other", float64(short.Load()), 100*40<<10)
		cancel()
		wg.Wait()
	})
}

// A transfer whose context ends in its address's queue does not delay the others of the address.
func TestGivingUpAtAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := account.NewMeter(account.Options{})
		limits := account.Limits{Rate: rates(t, "1KiB")}
		gone, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 20 {
			consumeFrom(t, gone, &wg, m, "192.0.2.1/32", limits)
		}
		synctest.Wait()
		leave()
		wg.Wait()
		f, err := m.Begin(t.Context(), "anonymous", netip.MustParsePrefix("192.0.2.1/32"), limits)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		began := time.Now()
		if n, err := f.Take(t.Context(), limits, 1000); err != nil || n < 1 || time.Since(began) > 2*time.Second {
			t.Errorf("%d bytes after %v, %v", n, time.Since(began), err)
		}
	})
}
