package wire_test

import (
	"testing"
	"time"

	"sheaf/internal/wire"
)

func TestLeaseHeader(t *testing.T) {
	for _, l := range []wire.Lease{{Renewed: true}, {Renewed: true, For: time.Millisecond}, {Renewed: true, For: 24 * time.Hour}} {
		if got, err := wire.ParseLease(l.String()); err != nil || got != l {
			t.Errorf("%q is read as %+v, %v", l.String(), got, err)
		}
	}
	if got, err := wire.ParseLease(""); err != nil || got.Renewed {
		t.Errorf("no header is read as %+v, %v", got, err)
	}
	for _, bad := range []string{"0", "-1", "1s", "99999999999999999999", "9999999999999"} {
		if got, err := wire.ParseLease(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}
