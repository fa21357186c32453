package revisit

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

func TestServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers")
	open := func() *Servers {
		s, err := OpenServers(path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	for _, host := range []string{"a.test", "b.test"} {
		v := s.Get(host)
		v.Addr, v.Day = netip.MustParseAddr("192.0.2.1"), 20000
		v.Hours.Observe(5, 1000)
		s.Set(host, v)
	}
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	if got := open().Get("b.test"); got != s.Get("b.test") || got.Hours.Estimate(5) != 1000 {
		t.Errorf("%+v", got)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()-10); err != nil { // power failed
		t.Fatal(err)
	}
	if n := len(open().all); n != 1 {
		t.Errorf("%d servers are known after one line was torn", n)
	}
}
