package ingest_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"sheaf/ingest"
	"sheaf/ingest/inbox"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/test/batchtest"
	"sheaf/test/operatorstest"
)

var word = inbox.Order{By: "tanaka", Note: "looked at it"}

// quarantined sends a batch of a host that is not the robot's, made in the future, and waits until
// it is quarantined.
func (h *installation) quarantined() *batchtest.Batch {
	h.t.Helper()
	h.robots.Foreign = []string{foreignHost}
	b := batchtest.Make(h.t, h.robots, 1, batchtest.Site(foreignHost, 2))
	b.Manifest.Created = time.Now().Add(48 * time.Hour)
	*b = *h.robots.Reframe(h.t, b, b.Range(0))
	h.accept(b)
	h.await(b.ID, wire.StateQuarantined)
	return b
}

func TestReleaseWaivesJudgements(t *testing.T) {
	h := newInstallation(t).open().run()
	b := h.quarantined()
	h.signed(b, wire.ReasonClock)
	row, err := h.in.Quarantine.Release(t.Context(), string(b.ID), word)
	testkit.Must(t, err)
	if row.Decision != inbox.Released || row.DecidedBy != word.By || row.Note != word.Note || row.Waived != "clock " {
		t.Errorf("row %+v", row)
	}
	testkit.Until(t, "the next judgement stops it", func() bool {
		r, _ := h.in.Acceptor.Receipt(t.Context(), b.ID)
		return r.State == wire.StateQuarantined && r.Reason == wire.ReasonHostNotAssigned
	})
	_, err = h.in.Quarantine.Release(t.Context(), string(b.ID), word)
	testkit.Must(t, err)
	if r := h.await(b.ID, wire.StatePublished); r.Reason != "" || r.Detail != "" {
		t.Errorf("receipt %+v", r)
	}
	lines := h.lines(foreignHost)
	if len(lines) != 1 || !strings.HasSuffix(lines[0].Object, "-3.tar.gz") {
		t.Fatalf("lines %+v; want one, of the third attempt", lines)
	}
	h.verify(lines[0])
	var no *inbox.Undecidable
	if _, err := h.in.Quarantine.Discard(t.Context(), string(b.ID), word); !errors.As(err, &no) {
		t.Errorf("a published batch is discarded: %v", err)
	}
}

func TestReleaseTriesFormatFaultsAgain(t *testing.T) {
	h := newInstallation(t).open().run()
	b := batchtest.Make(t, h.robots, 1, sites()...)
	b.Data[100] ^= 1
	h.accept(b)
	for range 2 {
		testkit.Until(t, "it is quarantined", func() bool {
			r, _ := h.in.Acceptor.Receipt(t.Context(), b.ID)
			return r.State == wire.StateQuarantined
		})
		h.kept(string(b.ID), b, wire.ReasonSHAMismatch)
		row, err := h.in.Quarantine.Release(t.Context(), string(b.ID), word)
		testkit.Must(t, err)
		if row.Waived != "" {
			t.Errorf("waived %q: bytes are no matter of opinion", row.Waived)
		}
	}
	h.await(b.ID, wire.StateQuarantined)
	h.signed(b, wire.ReasonSHAMismatch)
}

func TestDiscard(t *testing.T) {
	h := newInstallation(t).open().run()
	b := h.quarantined()
	row, err := h.in.Quarantine.Discard(t.Context(), string(b.ID), word)
	testkit.Must(t, err)
	if row.Decision != inbox.Discarded || row.DecidedBy != word.By || row.DecidedAt.IsZero() || !row.Collected {
		t.Errorf("row %+v", row)
	}
	dir := filepath.Join(h.opt.Dir, "quarantine", string(b.ID))
	if _, err := os.Stat(filepath.Join(dir, "batch.tar.gz")); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	if r := h.signed(b, wire.ReasonClock); !strings.HasPrefix(r.Detail, "discarded by tanaka at ") {
		t.Errorf("detail %q", r.Detail)
	}
	r, fresh, err := h.in.Acceptor.Accept(t.Context(), h.upload(b), b.Signed)
	testkit.Must(t, err)
	if fresh || r.State != wire.StateQuarantined {
		t.Errorf("the same again: fresh %v, %+v", fresh, r)
	}
	other := batchtest.Make(t, h.robots, 1, batchtest.Site("one.example.jp", 1))
	_, _, err = h.in.Acceptor.Accept(t.Context(), h.upload(other), other.Signed)
	wantRefusal(t, err, wire.ReasonIDReuse)
	var no *inbox.Undecidable
	if _, err := h.in.Quarantine.Release(t.Context(), string(b.ID), word); !errors.As(err, &no) {
		t.Errorf("a discarded batch is released: %v", err)
	}
}

// A batch that was discarded by mistake is wanted again within the hour. Then its file is deleted.
func TestDiscardIsTakenBack(t *testing.T) {
	h := newInstallation(t)
	var passed atomic.Int64
	h.opt.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	h.open().run()
	b := h.quarantined()
	file := filepath.Join(h.opt.Dir, "quarantine", string(b.ID), "batch.tar.gz")
	later := inbox.Order{By: word.By, Undo: true}
	row, err := h.in.Quarantine.Discard(t.Context(), string(b.ID), later)
	testkit.Must(t, err)
	if _, err := os.Stat(file); err != nil || row.Decision != inbox.Discarded || row.Collected {
		t.Fatalf("%v, row %+v", err, row)
	}
	row, err = h.in.Quarantine.Undiscard(t.Context(), string(b.ID), word)
	testkit.Must(t, err)
	if m, err := h.in.Manifest(t.Context(), row); err != nil || row.Decision != "" || len(m.Hosts) != 1 || m.Hosts[0].Name != foreignHost {
		t.Fatalf("%v, row %+v, manifest %+v", err, row, m)
	}
	h.signed(b, wire.ReasonClock)
	_, err = h.in.Quarantine.Discard(t.Context(), string(b.ID), later)
	testkit.Must(t, err)
	h.stop()
	h.open().run() // a start deletes nothing before its time
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	passed.Store(int64(inbox.UndoFor) + int64(time.Second))
	_, err = h.in.Quarantine.EraseDue(t.Context())
	testkit.Must(t, err)
	var no *inbox.Undecidable
	if _, err := h.in.Quarantine.Undiscard(t.Context(), string(b.ID), word); !errors.As(err, &no) {
		t.Errorf("a deleted file is wanted again: %v", err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

// TestKilledWhileDeciding kills the service before and after each durable write of a decision, and
// repeats the request, as an operator without an answer does.
func TestKilledWhileDeciding(t *testing.T) {
	for _, write := range inbox.DecisionBoundaries() {
		for _, when := range []string{"before", "after"} {
			t.Run(write+" "+when, func(t *testing.T) {
				t.Parallel()
				h := newInstallation(t).open().run()
				b := h.quarantined()
				h.stop()
				release := write == "restore" || write == "release"
				decide := func(in *ingest.Ingest) (err error) {
					if release {
						_, err = in.Quarantine.Release(t.Context(), string(b.ID), word)
					} else {
						_, err = in.Quarantine.Discard(t.Context(), string(b.ID), word)
					}
					return err
				}
				h.robots.Foreign = nil
				h.bury(write, when, func(in *ingest.Ingest) { decide(in) })
				h.open().run()
				var no *inbox.Undecidable
				if err := decide(h.in); err != nil && !errors.As(err, &no) {
					t.Fatal("the second try:", err)
				}
				if release {
					h.await(b.ID, wire.StatePublished)
					return
				}
				h.signed(b, wire.ReasonClock)
				if _, err := os.Stat(filepath.Join(h.opt.Dir, "quarantine", string(b.ID), "batch.tar.gz")); !os.IsNotExist(err) {
					t.Errorf("the file is still there: %v", err)
				}
			})
		}
	}
}

func TestDecisionsOverHTTP(t *testing.T) {
	h := newInstallation(t).open().run()
	b := h.quarantined()
	router := mux.NewRouter()
	h.in.Register(router, operatorstest.Open)
	post := func(id, verb, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest("POST", "/v1/admin/batches/"+id+"/"+verb, strings.NewReader(body)))
		return w
	}
	for _, c := range []struct {
		id, verb, body string
		status         int
		says           string
	}{
		{"nobody-20261120T000000Z-1", "release", "", 404, "not_found"},
		{string(b.ID), "release", "{", 400, "bad_body"},
		{string(b.ID), "discard", `{"by":"tanaka","note":"no use"}`, 200, `"decision":"discarded","decided_by":"tanaka"`},
		{string(b.ID), "discard", "", 409, "undecidable"},
		{string(b.ID), "release", "", 409, "undecidable"},
	} {
		if w := post(c.id, c.verb, c.body); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.verb, c.body, w.Code, w.Body, c.status, c.says)
		}
	}
}
