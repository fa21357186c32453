package robotd

import (
	"net/http"
	"slices"
	"testing"

	"sheaf/internal/wire"
)

// TestHostsToBeReported counts what the manager has not been told of, also after a restart.
func TestHostsToBeReported(t *testing.T) {
	s := newService(t)
	m := &manager{at: newEndpoints([]string{s.URL}), robot: "r1", secret: "s3cret", client: http.DefaultClient}
	dir := t.TempDir()
	var d *discovered
	reopen := func() {
		t.Helper()
		var err error
		if d, err = openDiscovered(dir); err != nil {
			t.Fatal(err)
		}
	}
	want := func(n int) {
		t.Helper()
		if got := d.waiting(); got != n {
			t.Errorf("%d are to be reported, want %d", got, n)
		}
	}
	add := func(url string) {
		t.Helper()
		if err := d.add(wire.HostLine{URL: url}); err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	want(0)
	add("http://www.a.test/")
	add("http://www.b.test/")
	add("http://www.a.test/")
	want(2)
	s.away = true
	if err := d.report(t.Context(), m); err == nil {
		t.Error("a report to nobody went well")
	}
	want(2)
	s.away = false
	if err := d.report(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	want(0)
	add("http://www.c.test/")
	want(1)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	reopen()
	defer func() { d.Close() }()
	want(1)
	if err := d.report(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	want(0)
	if all := []string{"http://www.a.test/", "http://www.b.test/", "http://www.c.test/"}; !slices.Equal(s.found, all) {
		t.Errorf("reported %q, want %q", s.found, all)
	}
}
