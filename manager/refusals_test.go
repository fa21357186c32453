package manager_test

import (
	"maps"
	"slices"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/assign"
	"sheaf/manager/hosts"
)

// states returns the hosts by name.
func (s *service) states() map[string]hosts.State {
	s.t.Helper()
	found, err := s.Hosts(s.t.Context(), hosts.Filter{}, "", 100)
	testkit.Must(s.t, err)
	states := map[string]hosts.State{}
	for _, h := range found {
		states[h.Name] = h.State
	}
	return states
}

// A host that its owner wants left out, at one port or at all, is in no robot's list, whether it
// was known or not, and no robot's report brings it back. An operator's word does.
func TestRefusedHostStaysOut(t *testing.T) {
	t.Parallel()
	s := start(t, dns{"www.known.jp": "192.0.2.1"})
	s.join("r1")
	_, err := s.AddHosts(t.Context(), []string{"http://www.known.jp/", "http://www.known.jp:8080/", "http://www.known.jp.example.jp/"}, nil, assign.Replication{})
	testkit.Must(t, err)
	for _, host := range []string{"www.known.jp", "www.new.jp:8080"} {
		testkit.Must(t, s.RefuseHost(t.Context(), host))
		testkit.Must(t, s.RefuseHost(t.Context(), host))
	}
	_, err = s.Discover(t.Context(), "r1", []wire.HostLine{{URL: "http://www.known.jp/a"}, {URL: "http://www.known.jp:81/"}, {URL: "http://www.new.jp:8080/"}, {URL: "http://www.new.jp/"}})
	testkit.Must(t, err)
	want := map[string]hosts.State{"www.known.jp": hosts.Refused, "www.known.jp:8080": hosts.Refused, "www.known.jp:81": hosts.Refused,
		"www.known.jp.example.jp": hosts.Accepted, "www.new.jp:8080": hosts.Refused, "www.new.jp": hosts.Accepted}
	if got := s.states(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	_, err = s.AddHosts(t.Context(), []string{"http://www.new.jp:8080/"}, nil, assign.Replication{})
	testkit.Must(t, err)
	if got := s.states(); got["www.new.jp:8080"] != hosts.Accepted {
		t.Errorf("after an operator has added it: %v", got)
	}
}

// A refused domain takes its hosts from the lists, and those that robots find later never come in.
func TestRefusedDomainStaysOut(t *testing.T) {
	t.Parallel()
	s := start(t, dns{})
	s.join("r1")
	_, err := s.AddHosts(t.Context(), []string{"http://example.jp/", "http://www.example.jp:81/", "http://www.other-example.jp/"}, nil, assign.Replication{})
	testkit.Must(t, err)
	for range 2 {
		testkit.Must(t, s.RefuseDomain(t.Context(), hosts.RefusedDomain{Domain: "example.jp", By: "ops", Reason: "its owner"}))
	}
	_, err = s.Discover(t.Context(), "r1", []wire.HostLine{{URL: "http://new.example.jp/"}, {URL: "http://example.jp.co.jp/"}})
	testkit.Must(t, err)
	want := map[string]hosts.State{"example.jp": hosts.Refused, "www.example.jp:81": hosts.Refused, "new.example.jp": hosts.Refused,
		"www.other-example.jp": hosts.Accepted, "example.jp.co.jp": hosts.Accepted}
	got := s.states()
	for host, state := range want {
		if got[host] != state {
			t.Errorf("%s is %s, want %s", host, got[host], state)
		}
	}
	for _, bad := range []string{"", "192.0.2.1", "[2001:db8::1]", "example.jp:80:80", "a b", "example.jp/x", "example.jp:8080", "<script>"} {
		if err := s.RefuseDomain(t.Context(), hosts.RefusedDomain{Domain: bad}); err == nil {
			t.Errorf("%q was refused as a domain", bad)
		}
	}
	list, err := s.RefusedDomains(t.Context())
	testkit.Must(t, err)
	if !slices.ContainsFunc(list, func(d hosts.RefusedDomain) bool { return d.Domain == "example.jp" && d.Reason == "its owner" }) || len(list) != 1 {
		t.Errorf("%+v", list)
	}
	testkit.Must(t, s.AllowDomain(t.Context(), "example.jp"))
	_, err = s.Discover(t.Context(), "r1", []wire.HostLine{{URL: "http://later.example.jp/"}})
	testkit.Must(t, err)
	if got := s.states(); got["later.example.jp"] != hosts.Accepted || got["new.example.jp"] != hosts.Refused {
		t.Errorf("after it was allowed again: %v", got)
	}
}
