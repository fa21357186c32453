package db

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestWritersTakeTurnsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{longest: time.Minute, turn: make(chan struct{}, 1)}
		first, err := turns.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var order []int
		for n := range 5 {
			go func() {
				done, err := turns.take(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, n)
				done()
			}()
			synctest.Wait()
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.take(impatient); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a writer whose time was up while another one wrote: %v", err)
		}
		first()
		synctest.Wait()
		if want := []int{0, 1, 2, 3, 4}; !slices.Equal(order, want) {
			t.Errorf("they came as %v and wrote as %v", want, order)
		}
	})
}

// A transaction that nobody ends must not keep others waiting for ever.
func TestWriterIsRefusedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{longest: time.Minute, turn: make(chan struct{}, 1)}
		done, err := turns.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := turns.take(t.Context()); err == nil || time.Since(began) != time.Minute {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		done()
		if _, err := turns.take(t.Context()); err != nil {
			t.Errorf("after the other had ended: %v", err)
		}
	})
}
