package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/testkit"
	"sheaf/manager"
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
