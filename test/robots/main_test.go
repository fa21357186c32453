package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
	"sheaf/serve/account"
	"sheaf/test/servicetest"
)

// A service answers every request of robots that come, work and go at once, also where all of them
// write at the same time.
func TestManyRobotsAtOnce(t *testing.T) {
	testkit.Slow(t)
	s := servicetest.Start(t, nil)
	var hosts manager.HostsRequest
	hosts.Addresses = map[string][]string{}
	for n := range 200 {
		name := fmt.Sprintf("h%d.test", n)
		hosts.Hosts, hosts.Addresses[name] = append(hosts.Hosts, "http://"+name+"/"), []string{fmt.Sprintf("192.0.2.%d", n)}
	}
	testkit.Must(t, s.Do(t.Context(), http.MethodPost, api.PathAdminHosts, hosts, nil))
	token, err := service.ReadToken(s.Data)
	testkit.Must(t, err)
	var out bytes.Buffer
	o := options{service: s.At.HTTP, token: token, robots: testkit.Size(12, 200), last: time.Second, every: 100 * time.Millisecond}
	if err := run(t.Context(), o, &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, kind := range []string{"join", "first list", "heartbeat", "leave", "remove"} {
		if !strings.Contains(out.String(), kind) {
			t.Errorf("no %s in\n%s", kind, &out)
		}
	}
	var left manager.RobotsResponse
	testkit.Must(t, s.Do(t.Context(), http.MethodGet, api.PathAdminRobots, nil, &left))
	if len(left.Robots) > 0 {
		t.Errorf("%d robots are left", len(left.Robots))
	}
	o.service = "http://192.0.2.1/"
	if err := run(t.Context(), o, &out); err == nil {
		t.Error("it would play robots of a service elsewhere")
	}
}

// Consumers who download and log in at once are all answered, and their accounts are removed. What
// a failing download is, is told.
func TestManyConsumersAtOnce(t *testing.T) {
	testkit.Slow(t)
	s := servicetest.Start(t, nil)
	token, err := service.ReadToken(s.Data)
	testkit.Must(t, err)
	var out bytes.Buffer
	o := options{service: s.At.HTTP, token: token, consumers: 8, accounts: 2, file: "/v1/hosts", last: time.Second, every: time.Second}
	if err := run(t.Context(), o, &out); err != nil && !strings.Contains(err.Error(), "shares differ") { // nothing is limited
		t.Errorf("%v\n%s", err, &out)
	}
	for _, kind := range []string{"download", "log-in", "remove account", "2 accounts got"} {
		if !strings.Contains(out.String(), kind) {
			t.Errorf("no %s in\n%s", kind, &out)
		}
	}
	var left account.AccountList
	testkit.Must(t, s.Do(t.Context(), http.MethodGet, api.PathAdminAccounts, nil, &left))
	if len(left.Accounts) > 0 {
		t.Errorf("%d accounts are left", len(left.Accounts))
	}
	o.file = "/nowhere"
	if err := run(t.Context(), o, &out); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("downloads of no file: %v", err)
	}
}

// Half of the consumers are those of every fourth account.
func TestAccountsOfConsumers(t *testing.T) {
	const consumers, accounts = 1000, 50
	of := make([]int, accounts)
	for n := range consumers {
		of[ofAccount(n, accounts)]++
	}
	if of[0] < 38 || of[accounts-1] < 13 || of[accounts-1] > 14 {
		t.Errorf("the accounts have %v consumers", of)
	}
}

func TestShares(t *testing.T) {
	readers := []*reader{{name: "a"}, {name: "b"}, {name: "c"}}
	for _, c := range []struct {
		got  [3]int64
		fair bool
	}{{[3]int64{100, 105, 95}, true}, {[3]int64{100, 130, 70}, false}, {[3]int64{0, 0, 0}, false}} {
		for i, n := range c.got {
			readers[i].got.Store(n)
		}
		if err := shares(io.Discard, readers, time.Second); (err == nil) != c.fair {
			t.Errorf("%v: %v", c.got, err)
		}
	}
}

// Robots send batches of their hosts, and a reader reads a file of each.
func TestBatchesAreRead(t *testing.T) {
	testkit.Slow(t)
	s := servicetest.Start(t, map[string]any{"publish.window": "always", "poll": "50ms"})
	token, err := service.ReadToken(s.Data)
	testkit.Must(t, err)
	var out bytes.Buffer
	o := options{service: s.At.HTTP, token: token, robots: 4, last: time.Second, every: 200 * time.Millisecond, hosts: 2, batches: 400 * time.Millisecond, pages: 2}
	if err := run(t.Context(), o, &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, kind := range []string{"batch", "upload", "received to published", "received to readable", "post-split", "remove host"} {
		if !strings.Contains(out.String(), kind) {
			t.Errorf("no %s in\n%s", kind, &out)
		}
	}
	t.Log("\n" + out.String())
}
