package board

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// One look is for all listeners, each gets it in its language, and nothing is looked up when nobody
// listens.
func TestOneSourceForAllListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		l := &live{look: func() map[string][]byte {
			looks.Add(1)
			return map[string][]byte{"en": []byte("here"), "ja": []byte("ここ")}
		}}
		time.Sleep(time.Hour)
		if looks.Load() != 0 {
			t.Errorf("%d looks for nobody", looks.Load())
		}
		var leaves []func()
		for i := range liveListeners {
			lang := []string{"en", "ja"}[i%2]
			events, leave := l.listen(lang)
			leaves = append(leaves, leave)
			if got := string(<-events); got != map[string]string{"en": "here", "ja": "ここ"}[lang] {
				t.Errorf("listener %d gets %q", i, got)
			}
		}
		if events, _ := l.listen("en"); events != nil {
			t.Errorf("listener %d is let in", liveListeners+1)
		}
		before := looks.Load()
		time.Sleep(10 * liveEvery) // nobody takes the events, and nobody is held up
		synctest.Wait()
		if n := looks.Load() - before; n != 10 {
			t.Errorf("%d looks in 10 intervals", n)
		}
		for _, leave := range leaves {
			leave()
		}
		time.Sleep(liveEvery)
		synctest.Wait()
		before = looks.Load()
		time.Sleep(time.Hour)
		if looks.Load() != before {
			t.Error("it goes on looking when all have left")
		}
	})
}

// When the service stops nothing is looked up any more, also where somebody still listens.
func TestNoLooksAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := make(chan struct{})
		var looks atomic.Int64
		l := &live{look: func() map[string][]byte { looks.Add(1); return nil }, stopping: stopping}
		events, leave := l.listen("en")
		defer leave()
		<-events
		close(stopping)
		synctest.Wait()
		before := looks.Load()
		time.Sleep(time.Hour)
		if looks.Load() != before {
			t.Error("it goes on looking")
		}
	})
}
