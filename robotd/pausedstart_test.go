package robotd

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"sheaf/internal/testkit"
)

// A robot that is paused while its cycle begins visits all of its hosts when the pause ends.
func TestPausedWhileItBegins(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const hosts = 300 // more than are visited at once
	at, seeds := map[string]string{}, []string{}
	for n := range hosts {
		host := fmt.Sprintf("h%d.test", n)
		at[host] = fmt.Sprintf("192.0.%d.%d:80", n/200, n%200+1)
		seeds = append(seeds, "http://"+host+"/")
	}
	cfg := testConfig(t, newService(t), at)
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		r := inBubble(t, cfg, network, seeds)
		defer r.Close()
		srv := &http.Server{Handler: http.NotFoundHandler()}
		go srv.Serve(network)
		defer srv.Close()
		testkit.Must(t, r.manners.Admission.SetPaused(true))
		done := make(chan error, 1)
		go func() { done <- r.Cycle(t.Context()) }()
		time.Sleep(time.Hour)
		testkit.Must(t, r.manners.Admission.SetPaused(false))
		began := time.Now()
		testkit.Must(t, <-done)
		if took := time.Since(began); took > time.Hour {
			t.Errorf("the cycle ended %v after the pause", took)
		}
	})
}
