package account_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
	"sheaf/serve/account"
)

// Who counts as one address: what Begin is told by From, seen in who shares with whom.
func TestAnonymousShareByAddress(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	rate, err := account.ParseRates("200KiB")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		account string
		two     [2]string // where the first, with nine connections, and the second, with one, are
		share   int       // percent that the second gets
	}{
		"addresses":            {account.Anonymous, [2]string{"192.0.2.1:9", "192.0.2.2:9"}, 50},
		"ports of one":         {account.Anonymous, [2]string{"192.0.2.1:9", "192.0.2.1:10"}, 10},
		"one /64":              {account.Anonymous, [2]string{"[2001:db8::1]:9", "[2001:db8::2]:9"}, 10},
		"two /64":              {account.Anonymous, [2]string{"[2001:db8::1]:9", "[2001:db8:0:1::1]:9"}, 50},
		"IPv4 within IPv6":     {account.Anonymous, [2]string{"192.0.2.1:9", "[::ffff:192.0.2.1]:9"}, 10},
		"loopback, by proxies": {account.Anonymous, [2]string{"127.0.0.1:9", "127.0.0.2:9"}, 10},
		"an account":           {"alice", [2]string{"192.0.2.1:9", "192.0.2.2:9"}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				access := &account.Access{Meter: account.NewMeter(account.Options{})}
				known := &account.Account{Name: c.account, Domains: []string{"jp"}, Rate: rate}
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				var got [2]atomic.Int64
				for i := range 10 {
					who := min(i/9, 1)
					p, err := access.Begin(ctx, known.From(c.two[who]))
					if err != nil {
						t.Fatal(err)
					}
					wg.Go(func() {
						defer p.Close()
						from := account.Reader(ctx, strings.NewReader(strings.Repeat("x", 30<<20)), 30<<20, p.Take)
						for b := make([]byte, 32<<10); ; {
							n, err := from.Read(b)
							if got[who].Add(int64(n)); err != nil {
								if err != io.EOF && ctx.Err() == nil {
									t.Error(err)
								}
								return
							}
						}
					})
				}
				time.Sleep(100 * time.Second)
				stop()
				wg.Wait()
				all := got[0].Load() + got[1].Load()
				if share := int(100*got[1].Load()/all + 1); share < c.share-1 || share > c.share+2 {
					t.Errorf("the second got %d %%, want %d", share, c.share)
				}
			})
		})
	}
}
