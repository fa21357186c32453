package manager_test

import (
	"testing"

	"sheaf/manager/hosts"
)

func TestPolicyOfHosts(t *testing.T) {
	p := hosts.Policy{Accept: []string{"jp", ".Test."}, Refuse: []string{"ad.jp"}}
	for host, want := range map[string]hosts.State{
		"www.etl.go.jp": hosts.Accepted, "jp": hosts.Refused, "co.jp:80": hosts.Refused, "github.io": hosts.Pending, "a.test:8080": hosts.Accepted, "x.ad.jp": hosts.Refused, "bad.jp": hosts.Accepted,
		"a.notjp": hosts.Pending, "example.com": hosts.Pending, "[2606:4700::1111]": hosts.Pending, "192.0.32.7:80": hosts.Pending, "127.0.0.1:80": hosts.Refused,
	} {
		if got := p.Judge(host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
	if got := (hosts.Policy{Accept: []string{"*"}}).Judge("[2606:4700::1111]:81"); got != hosts.Accepted {
		t.Errorf("*: %s", got)
	}
}
