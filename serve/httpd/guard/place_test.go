package guard

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"sheaf/internal/cache"
	"sheaf/serve/account"
)

// Clients that leave at once have no more under way than those that wait: what was begun for them
// keeps its place to the end.
func TestWhoLeavesKeepsThePlaceOfItsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := NewLimits()
		memo, finish := cache.NewMemo(1<<20), make(chan struct{})
		running, refused := 0, 0
		ask := func(ctx context.Context, key string) {
			r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
			out, err := limits.Search(r, &account.Account{Name: "jp"})
			if err != nil {
				refused++
				return
			}
			in := NewPlace(out)
			defer in.Leave()
			build := InPlace(in, func(context.Context) (int, error) { running++; <-finish; return 7, nil })
			n, err := cache.GetOrCompute(ctx, memo, key, func(ctx context.Context) (int, int64, error) {
				n, err := build(ctx)
				return n, 8, err
			})
			in.Leave()
			if ctx.Err() == nil && (n != 7 || err != nil) {
				t.Errorf("%s: %d, %v", key, n, err)
			}
		}
		for n := range 20 {
			ctx, leave := context.WithCancel(t.Context())
			go ask(ctx, fmt.Sprint("key ", n))
			synctest.Wait()
			leave()
			synctest.Wait()
		}
		if running != 4 || refused != 16 {
			t.Errorf("%d builds are under way at once, and %d requests were refused; want 4 and 16", running, refused)
		}
		close(finish)
		synctest.Wait()
		for n := range 20 {
			ask(t.Context(), fmt.Sprint("key ", n))
		}
		if refused != 16 {
			t.Errorf("%d requests were refused when all had ended", refused-16)
		}
	})
}
