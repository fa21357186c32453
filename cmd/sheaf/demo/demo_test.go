package demo

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"sheaf/archive"
	"sheaf/internal/transfers"
)

// kept keeps what the demo tells.
type kept struct {
	mu     sync.Mutex // guards all below
	events []Event
	report Report
}

func (k *kept) Tell(e Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

func (k *kept) Report(r Report) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.report = r
}

// TestOnce is the whole way through: what `sheaf demo --once` checks, and that it was checked.
func TestOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var k kept
	if err := Run(ctx, Options{Once: true, Data: t.TempDir()}, &k); err != nil {
		t.Fatal(err)
	}
	var checked []Event
	for _, e := range k.events {
		if e.Kind == "checked" {
			checked = append(checked, e)
		}
	}
	if len(checked) != 2 || checked[0].Pages < 400 || checked[0].Current != checked[0].Pages ||
		checked[1].Pages == 0 || checked[1].Pages > 20 || checked[1].Current < 400 {
		t.Errorf("checked %+v; want all pages of day 1, and on day 2 the few that changed", checked)
	}
	for _, robot := range robots {
		if !slices.ContainsFunc(k.report.Transfers, func(l transfers.TotalLine) bool { return l.Who == robot && l.Bytes > 0 && l.Rate > 0 }) {
			t.Errorf("no transfer rate of robot %s in %+v", robot, k.report.Transfers)
		}
	}
	if len(k.report.Editions) != 2 {
		t.Errorf("editions %+v, want two", k.report.Editions)
	}
}

// TestComparisonNotices spoils archives in each way and expects the check to say so.
func TestComparisonNotices(t *testing.T) {
	w, err := startWeb()
	if err != nil {
		t.Fatal(err)
	}
	defer w.stop()
	const host = "w3m.example.ac.jp"
	page := "http://" + host + "/ja/MANUAL.html"
	body, _, err := w.Body(1, host, "/ja/MANUAL.html")
	if err != nil {
		t.Fatal(err)
	}
	name := archive.FileName(host, page)
	for what, got := range map[string]map[string][]byte{
		"missing":   {},
		"differs":   {name: append([]byte("x"), body...)},
		"cut":       {name: body[:len(body)-1]},
		"too many":  {name: body, host + "/ja/other.html": body},
		"elsewhere": {host + "/MANUAL.html": body},
	} {
		if compare(w, 1, host, []string{page}, got) == nil {
			t.Errorf("%s: not noticed", what)
		}
	}
	if err := compare(w, 1, host, []string{page}, map[string][]byte{name: body}); err != nil {
		t.Errorf("good archive: %v", err)
	}
}
