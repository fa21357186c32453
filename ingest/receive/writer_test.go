package receive

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"sheaf/ingest/inbox"
)

// TestLateConnection: a PATCH that was begun, and then overtaken by another of the same
// robot, cannot cut back what that one has brought. REST to an earlier byte can.
func TestLateConnection(t *testing.T) {
	us := &uploads{
		dir: t.TempDir(), log: slog.New(slog.DiscardHandler), boundary: func(string, string) {}, byName: map[string]*upload{},
		guard: inbox.NewGuard(nil, inbox.Marks{}, time.Minute, func() (int64, error) { return 0, nil }),
	}
	u, err := us.create(status{Batch: "waseda-20261120T150405Z-1", Robot: "waseda", Protocol: overHTTP, Size: 1000})
	if err != nil {
		t.Fatal(err)
	}
	w, err := u.resume(0)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(make([]byte, 100))
	if st, err := u.settled(); err != nil || st.Offset != 100 {
		t.Fatalf("%+v, %v", st, err)
	}
	for _, at := range []int64{0, 99, 101} {
		if _, err := u.resume(at); !errors.Is(err, errOffset) {
			t.Errorf("resumed at %d: %v", at, err)
		}
	}
	if st := u.get(); st.Offset != 100 {
		t.Errorf("%d bytes are kept after late connections", st.Offset)
	}
	if _, err := u.begin(50); err != nil || u.get().Offset != 50 {
		t.Errorf("REST 50: %v, %d bytes are kept", err, u.get().Offset)
	}
}
