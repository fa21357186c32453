package loop

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Something is done when it is due, its errors are told, and the end of the context is none.
func TestEvery(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(context.Context, time.Duration, func(context.Context) error, func(error)) error
		want string // instants of calls, in seconds
	}{
		"every": {Every, "[0 10 25 30]"},
		"after": {After, "[10 20 35 40]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				began, bad := time.Now(), errors.New("bad")
				var at []int
				var told []error
				err := c.run(ctx, 10*time.Second, func(ctx context.Context) error {
					at = append(at, int(time.Since(began).Seconds()))
					switch len(at) {
					case 1:
						return bad
					case 2:
						time.Sleep(15 * time.Second) // the call that is due meanwhile follows at once
					case 4:
						stop()
						return ctx.Err()
					}
					return nil
				}, func(err error) { told = append(told, err) })
				if err != nil || len(told) != 1 || told[0] != bad {
					t.Errorf("%v; told %v", err, told)
				}
				if got := fmt.Sprint(at); got != c.want {
					t.Errorf("called at %s s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Pause(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("a pause of a minute took %v", time.Since(began))
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		if Pause(ctx, time.Minute) || time.Since(began) != time.Minute+time.Second {
			t.Errorf("a pause that was broken off ended after %v", time.Since(began))
		}
	})
}

// A channel that is full keeps what it has.
func TestOffer(t *testing.T) {
	c := make(chan int, 1)
	Offer(c, 1)
	Offer(c, 2)
	if got := <-c; got != 1 || len(c) > 0 {
		t.Errorf("received %d, %d more wait", got, len(c))
	}
}

// The wait doubles with each failure up to Max, whatever Min is and however many failures there
// are.
func TestBackoff(t *testing.T) {
	for failures := 1; failures < 200; failures++ {
		for _, least := range []time.Duration{time.Nanosecond, time.Second, 20 * time.Second, 2 * time.Hour} {
			want := least
			for n := 1; n < failures && want < time.Hour; n++ {
				want *= 2
			}
			want = min(want, time.Hour)
			if wait := (Backoff{Min: least, Max: time.Hour}).After(failures); wait < want/2 || wait > want {
				t.Errorf("from %v, after %d failures: %v, want half of %v or more", least, failures, wait, want)
			}
		}
	}
}
