package polite_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/polite"
)

// A lease counts from the request, outlasts the process but not the machine's run, and ends without
// renewal.
func TestLeaseOutlastsTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lease.json")
	open := func(leased bool) *polite.Lease {
		t.Helper()
		l, err := polite.OpenLease(path, leased)
		testkit.Must(t, err)
		return l
	}
	if !open(false).MayVisit() {
		t.Error("a robot without a lease does not visit")
	}
	if open(true).MayVisit() {
		t.Error("the file of a lease was lost, and the robot visits")
	}
	l := open(false)
	long := wire.Lease{Renewed: true, For: time.Hour}
	testkit.Must(t, l.Renew(polite.Sent(), long))
	begin, last, ok := l.Left()
	if margin := wire.LeaseMargin(time.Hour); !ok || !l.MayVisit() || last > time.Hour || last < time.Hour-time.Minute || last-begin != margin {
		t.Errorf("visits may begin for %v and last for %v, %t", begin, last, ok)
	}
	if !open(true).MayVisit() {
		t.Error("it does not outlast the process")
	}
	testkit.Must(t, l.Renew(polite.Sent(), wire.Lease{})) // not renewed
	testkit.Must(t, l.Renew(polite.Sent()-polite.Instant(59*time.Minute+30*time.Second), long))
	if _, last, _ := l.Left(); l.MayVisit() || last <= 0 {
		t.Errorf("visits begin in the last minute, %v before the end", last)
	}
	ctx, cancel := l.Bound(t.Context())
	if ctx.Err() != nil {
		t.Error("a request in flight is broken off before the end")
	}
	cancel()
	testkit.Must(t, l.Renew(polite.Sent()-polite.Instant(time.Hour), long))
	ctx, cancel = l.Bound(t.Context())
	defer cancel()
	<-ctx.Done()
	testkit.Must(t, l.Renew(polite.Sent(), long))
	testkit.Must(t, os.WriteFile(path, []byte(`{"boot":"another","until":9000000000000000000,"for":3600000000000}`), 0o600))
	if open(true).MayVisit() {
		t.Error("it outlasts the machine's run, whose clock began anew")
	}
	testkit.Must(t, l.Renew(polite.Sent(), wire.Lease{Renewed: true}))
	if !open(true).MayVisit() {
		t.Error("a lease without end has ended")
	}
	testkit.Must(t, l.End())
	if l.MayVisit() || open(false).MayVisit() {
		t.Error("the robot left, and visits")
	}
}
