package manager

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/wire"
)

type names map[string]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if a, ok := n[host]; ok {
		return []netip.Addr{netip.MustParseAddr(a)}, nil
	}
	return nil, errors.New("no such host")
}

// A host that the DNS could not find when it was added goes to its address's robot once it is found.
func TestRefreshBringsLateAddressesTogether(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Source(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	dns := names{}
	m := New(d, Options{Resolver: dns})
	for _, robot := range []string{"r1", "r2"} {
		token, _, err := m.Admit(t.Context(), robot)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Exec(`UPDATE robots SET secret_hash = ?, token_hash = NULL WHERE name = ? AND token_hash = ?`, []byte{0}, robot, hash(token)); err != nil {
			t.Fatal(err)
		}
		if err := m.Subscribe(t.Context(), robot); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.AddHosts(t.Context(), []string{"http://a.test/", "http://b.test/"}, nil); err != nil {
		t.Fatal(err)
	}
	lists := func() (one, two []wire.HostLine) {
		_, one, err1 := m.List(t.Context(), "r1")
		_, two, err2 := m.List(t.Context(), "r2")
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return one, two
	}
	if one, two := lists(); len(one) != 1 || len(two) != 1 {
		t.Fatalf("before: %v and %v", one, two)
	}
	dns["a.test"], dns["b.test"] = "192.0.2.9", "192.0.2.9"
	if n, err := m.refreshAddresses(t.Context(), time.Now()); n != 2 || err != nil {
		t.Fatalf("found %d, %v", n, err)
	}
	if one, two := lists(); len(one)+len(two) != 2 || len(one) == 1 {
		t.Errorf("after: %v and %v; want both with one robot", one, two)
	}
	if n, err := m.refreshAddresses(t.Context(), time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("asked again at once: %d, %v", n, err)
	}
}

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
