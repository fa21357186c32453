package hosts

import "testing"

func TestPolicy(t *testing.T) {
	p := Policy{Accept: []string{"jp", ".Test."}, Refuse: []string{"ad.jp"}}
	for host, want := range map[string]State{
		"www.etl.go.jp": Accepted, "jp": Accepted, "a.test:8080": Accepted, "x.ad.jp": Refused, "bad.jp": Accepted,
		"notjp": Pending, "example.com": Pending, "[2001:db8::1]": Pending, "192.0.2.1:80": Pending,
	} {
		if got := p.Judge(host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
	if got := (Policy{Accept: []string{"*"}}).Judge("[2001:db8::1]:81"); got != Accepted {
		t.Errorf("*: %s", got)
	}
}
