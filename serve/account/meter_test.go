package account_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/serve/account"
)

func rates(t *testing.T, text string) *account.Rates {
	t.Helper()
	r, err := account.ParseRates(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// consume fetches without end, as fast as allowed, and returns the number of bytes.
func consume(t *testing.T, ctx context.Context, wg *sync.WaitGroup, m *account.Meter, name string, l func() account.Limits) *atomic.Int64 {
	t.Helper()
	f, err := m.Begin(ctx, name, netip.Prefix{}, l())
	if err != nil {
		t.Fatal(err)
	}
	got := new(atomic.Int64)
	wg.Go(func() {
		defer f.Close()
		for {
			n, err := f.Take(ctx, l(), 1<<20)
			if err != nil {
				return
			}
			got.Add(n)
		}
	})
	return got
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > want/50 {
		t.Errorf("%s: %.0f bytes, want about %.0f", what, got, want)
	}
}

// Three connections of an account fetch for a hundred seconds: together they get its rate, and a
// third each. A changed rate takes effect at once.
func TestConnectionsShareTheirAccountsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := account.NewMeter(account.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var limits atomic.Pointer[account.Limits]
		limits.Store(&account.Limits{Rate: rates(t, "100KiB")})
		var got [3]*atomic.Int64
		for i := range got {
			got[i] = consume(t, ctx, &wg, m, "alice", func() account.Limits { return *limits.Load() })
		}
		other := consume(t, ctx, &wg, m, "bob", func() account.Limits { return account.Limits{Rate: rates(t, "1MiB")} })
		time.Sleep(100 * time.Second)
		for _, n := range got {
			near(t, "a third of 100 s", float64(n.Swap(0)), 100*100<<10/3)
		}
		near(t, "another account", float64(other.Load()), 100*1<<20)
		limits.Store(&account.Limits{Rate: rates(t, "10KiB")})
		time.Sleep(100 * time.Second)
		for _, n := range got {
			near(t, "a third of 100 s at the new rate", float64(n.Load()), 100*10<<10/3)
		}
		cancel()
		wg.Wait()
	})
}

// Accounts share the line equally, however many connections they open. Others get what one cannot
// use.
func TestAccountsShareTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := account.NewMeter(account.Options{Line: rates(t, "1MiB")})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		free := func() account.Limits { return account.Limits{} }
		one := consume(t, ctx, &wg, m, "one", free)
		var ten [10]*atomic.Int64
		for i := range ten {
			ten[i] = consume(t, ctx, &wg, m, "ten", free)
		}
		slow := consume(t, ctx, &wg, m, "slow", func() account.Limits { return account.Limits{Rate: rates(t, "64KiB")} })
		time.Sleep(100 * time.Second)
		share := float64(100*(1<<20)-100*(64<<10)) / 2
		near(t, "slow", float64(slow.Load()), 100*64<<10)
		near(t, "one connection", float64(one.Load()), share)
		sum := 0.0
		for _, n := range ten {
			near(t, "one of ten connections", float64(n.Load()), share/10)
			sum += float64(n.Load())
		}
		near(t, "ten connections", sum, share)
		cancel()
		wg.Wait()
	})
}

// A transfer whose context ends in the queue does not delay the others.
func TestWaitingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := account.NewMeter(account.Options{Line: rates(t, "1KiB")})
		gone, leave := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		free := func() account.Limits { return account.Limits{} }
		for range 20 {
			consume(t, gone, &wg, m, "gone", free)
		}
		synctest.Wait()
		why := errors.New("connection lost")
		leave(why)
		wg.Wait()
		f, err := m.Begin(t.Context(), "alice", netip.Prefix{}, account.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Take(gone, account.Limits{}, 1); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
		began := time.Now()
		if n, err := f.Take(t.Context(), account.Limits{}, 1000); err != nil || n < 1 || time.Since(began) > 2*time.Second {
			t.Errorf("%d bytes after %v, %v", n, time.Since(began), err)
		}
	})
}

// A file that was begun within the quota is completed, unless the day's bytes reach twice the
// quota. The next day begins at midnight in the service's zone, even if clocks skip midnight.
func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone, err := time.LoadLocation("America/Santiago") // 5 September 2027 begins at 01:00
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(time.Date(2027, 9, 4, 22, 0, 0, 0, zone)))
		m := account.NewMeter(account.Options{Zone: zone})
		limits := account.Limits{Quota: 3 << 20}
		take := func(f *account.Flow, n int64) (got int64, err error) {
			for got < n && err == nil {
				var some int64
				some, err = f.Take(t.Context(), limits, n-got)
				got += some
			}
			return got, err
		}
		f, err := m.Begin(t.Context(), "alice", netip.Prefix{}, limits)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if n, err := take(f, 4<<20); n != 4<<20 || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
		var over *account.QuotaError
		midnight := time.Date(2027, 9, 5, 1, 0, 0, 0, zone)
		if _, err := m.Begin(t.Context(), "alice", netip.Prefix{}, limits); !errors.As(err, &over) || !over.Next.Equal(midnight) || over.Used != 4<<20 {
			t.Fatalf("%v", err)
		}
		if n, err := take(f, 4<<20); n != 2<<20 || !errors.As(err, &over) {
			t.Errorf("%d bytes more, %v", n, err)
		}
		if other, err := m.Begin(t.Context(), "bob", netip.Prefix{}, limits); err != nil {
			t.Error(err)
		} else {
			other.Close()
		}
		time.Sleep(time.Until(midnight))
		again, err := m.Begin(t.Context(), "alice", netip.Prefix{}, limits)
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
	})
}

func TestStreamsKeepThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := account.NewMeter(account.Options{})
		limits := account.Limits{Rate: rates(t, "10KiB")}
		f, err := m.Begin(t.Context(), "alice", netip.Prefix{}, limits)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		taken := int64(0)
		take := func(ctx context.Context, n int64) (int64, error) {
			n, err := f.Take(ctx, limits, n)
			taken += n
			return n, err
		}
		data := bytes.Repeat([]byte("0123456789abcdef"), 64<<10/16)
		for name, move := range map[string]func(to io.Writer, from io.Reader) (int64, error){
			"reader": func(to io.Writer, from io.Reader) (int64, error) {
				return io.CopyBuffer(struct{ io.Writer }{to}, account.Reader(t.Context(), from, int64(len(data)), take), make([]byte, 10_000))
			},
			"writer": func(to io.Writer, from io.Reader) (int64, error) {
				return io.Copy(account.Writer(t.Context(), to, take), from)
			},
		} {
			began := time.Now()
			taken = 0
			var to bytes.Buffer
			_, err := move(&to, struct{ io.Reader }{bytes.NewReader(data)})
			if err != nil || !bytes.Equal(to.Bytes(), data) {
				t.Errorf("%s: %d bytes, %v", name, to.Len(), err)
			}
			if taken != int64(len(data)) {
				t.Errorf("%s: %d bytes are counted of %d", name, taken, len(data))
			}
			if took := time.Since(began); took < 6*time.Second || took > 7*time.Second {
				t.Errorf("%s: 64 KiB at 10 KiB/s took %v", name, took)
			}
		}
	})
}
