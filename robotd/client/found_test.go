package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

// TestHostsToBeReported counts what the manager has not been told of, also after a restart.
func TestHostsToBeReported(t *testing.T) {
	var m recorder
	dir := t.TempDir()
	var d *Found
	reopen := func() {
		t.Helper()
		var err error
		if d, err = OpenFound(dir); err != nil {
			t.Fatal(err)
		}
	}
	want := func(n int) {
		t.Helper()
		if got := d.Waiting(); got != n {
			t.Errorf("%d are to be reported, want %d", got, n)
		}
	}
	add := func(url string) {
		t.Helper()
		if err := d.Add(wire.HostLine{URL: url}); err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	want(0)
	add("http://www.a.test/")
	add("http://www.b.test/")
	add("http://www.a.test/")
	want(2)
	m.away = true
	if err := d.Report(t.Context(), &m); err == nil {
		t.Error("a report to nobody went well")
	}
	want(2)
	m.away = false
	if err := d.Report(t.Context(), &m); err != nil {
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
	if err := d.Report(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	want(0)
	if all := []string{"http://www.a.test/", "http://www.b.test/", "http://www.c.test/"}; !slices.Equal(m.found, all) {
		t.Errorf("reported %q, want %q", m.found, all)
	}
}

// recorder is a manager that may be away.
type recorder struct {
	away  bool
	found []string
}

func (r *recorder) Record(_ context.Context, lines []wire.HostLine) error {
	if r.away {
		return errors.New("away")
	}
	for _, l := range lines {
		r.found = append(r.found, l.URL)
	}
	return nil
}

// Of each host a few pages are reported, each once, also after a restart; whatever a site links to.
func TestPagesOfHostsAreBounded(t *testing.T) {
	dir := t.TempDir()
	lines := 0
	for range 2 {
		d, err := OpenFound(dir)
		testkit.Must(t, err)
		if lines > 0 && d.Waiting() != lines {
			t.Errorf("after a restart %d lines wait, before it %d", d.Waiting(), lines)
		}
		for host := range 3 {
			name := fmt.Sprintf("www%d.a.test", host)
			testkit.Must(t, d.Add(wire.HostLine{URL: "http://" + name + "/"}))
			for page := range 1000 {
				testkit.Must(t, d.AddPage(name, fmt.Sprintf("http://%s/%d", name, page)))
			}
		}
		if lines = d.Waiting(); lines != 3*(1+pagesOfHost) {
			t.Errorf("%d lines of 3 hosts", lines)
		}
		testkit.Must(t, d.Close())
	}
}

// A page that the disk does not take keeps no place of its host: it is reported when there is room.
func TestFoundOnFullDisk(t *testing.T) {
	d, err := OpenFound(t.TempDir())
	testkit.Must(t, err)
	defer d.Close()
	testkit.Must(t, d.Add(wire.HostLine{URL: "http://www.a.test/"}))
	lift := testkit.FilesUpTo(t, 25)
	if lift == nil {
		return
	}
	if err := d.AddPage("www.b.test", "http://www.b.test/page"); err == nil {
		t.Error("a full disk took a page")
	}
	lift()
	testkit.Must(t, d.AddPage("www.b.test", "http://www.b.test/page"))
	testkit.Must(t, d.AddPage("www.b.test", "http://www.b.test/page"))
	var m recorder
	testkit.Must(t, d.Report(t.Context(), &m))
	if fmt.Sprint(m.found) != "[http://www.a.test/ http://www.b.test/page]" {
		t.Errorf("the manager got %v", m.found)
	}
}
