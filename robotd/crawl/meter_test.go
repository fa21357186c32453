package crawl

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		for range 300 { // one each second, for five minutes
			m.Add(1)
			time.Sleep(time.Second)
		}
		if n := m.PerMinute(); n < 59 || n > 61 || m.Load() != 300 {
			t.Errorf("%d in the last minute of %d", n, m.Load())
		}
		time.Sleep(30 * time.Second)
		if n := m.PerMinute(); n < 28 || n > 32 {
			t.Errorf("%d in a minute of which half was idle", n)
		}
		time.Sleep(2 * time.Minute)
		if n := m.PerMinute(); n != 0 {
			t.Errorf("%d in an idle minute", n)
		}
	})
}
