package cache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestCallersShareOneComputation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int]
		calls, finish := 0, make(chan struct{})
		compute := func(ctx context.Context) (int, error) {
			calls++
			<-finish
			return 7, ctx.Err()
		}
		gone, leave := context.WithCancel(t.Context())
		go func() {
			if _, err := g.Do(gone, "key", compute); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left got %v", err)
			}
		}()
		synctest.Wait()
		for range 3 {
			go func() {
				if n, err := g.Do(t.Context(), "key", compute); n != 7 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}()
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(finish)
		synctest.Wait()
		if calls != 1 {
			t.Errorf("computed %d times", calls)
		}
	})
}

// A computation that did not begin, since its caller went while it waited for its turn, is begun by
// another caller.
func TestOtherCallersComputeWhenOneLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int]
		gone, leave := context.WithCancel(t.Context())
		go func() {
			_, err := g.Do(gone, "key", func(context.Context) (int, error) { <-gone.Done(); return 0, ErrLeft })
			if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrLeft) {
				t.Errorf("the caller that left got %v", err)
			}
		}()
		synctest.Wait()
		for range 3 {
			go func() {
				if n, err := g.Do(t.Context(), "key", func(context.Context) (int, error) { return 7, nil }); n != 7 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}()
		}
		synctest.Wait()
		leave()
		synctest.Wait()
	})
}
