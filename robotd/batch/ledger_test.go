package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"sheaf/archive"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
)

func TestLedgerToReport(t *testing.T) {
	dir := t.TempDir()
	path, moved := filepath.Join(dir, "ledger"), filepath.Join(dir, "moved")
	l, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	add := func(e ...Uncollected) {
		t.Helper()
		if err := l.Add(e...); err != nil {
			t.Fatal(err)
		}
	}
	add(Uncollected{KindRefused, "robots.txt", "a.test", 1, "http://a.test/x"}, Uncollected{KindCut, "depth", "a.test", 7, "http://a.test/y"})
	add(Uncollected{KindLeft, "size", "a.test", 9, ""}, Uncollected{KindFailed, "dns\nx", "b.test", 1, "http://b.test/"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// The process was killed while it wrote a line.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "marked\tparked\ta.te"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLedger(path); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	add(Uncollected{KindMarked, "parked", "a.test", 1, "http://a.test/" + strings.Repeat("z", longestURL)}, Uncollected{KindLeft, "window", "a.test", 4, ""})
	if got := l.Totals(); !reflect.DeepEqual(got, map[Kind]int64{KindRefused: 1, KindCut: 7, KindFailed: 1, KindMarked: 1}) {
		t.Errorf("totals %v", got)
	}
	if err := l.Move(moved); err != nil {
		t.Fatal(err)
	}
	if got := l.Totals(); len(got) != 0 {
		t.Errorf("totals after Move: %v", got)
	}
	r, err := ReadReport(moved)
	if err != nil {
		t.Fatal(err)
	}
	r.AddSegment(&archive.Index{Host: "c.test", Cells: []archive.Cell{
		{Kind: archive.Page, Truncated: "length"}, {Kind: archive.Page}, {Kind: archive.Revisit}, {Kind: archive.Response, Status: 404},
	}})
	want := []wire.Coverage{
		{
			Host: "a.test", Refused: 1, Cut: map[string]int64{"depth": 7}, Marked: map[string]int64{"parked": 1}, Left: 4, LeftWhy: "window",
			URLs: []wire.CoveredURL{{URL: "http://a.test/x", Why: "refused robots.txt"}, {URL: "http://a.test/y", Why: "cut depth"}}, More: true,
		},
		{Host: "b.test", Failed: map[string]int64{"dns x": 1}, URLs: []wire.CoveredURL{{URL: "http://b.test/", Why: "failed dns x"}}},
		{Host: "c.test", Collected: 2, Unchanged: 1, Truncated: map[string]int64{"length": 1}, Answers: map[string]int64{"404": 1}},
	}
	if got := r.Hosts(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	if err := l.Move(filepath.Join(dir, "again")); err != nil {
		t.Errorf("moving an empty ledger: %v", err)
	}
	if r, err := ReadReport(filepath.Join(dir, "again")); err != nil || len(r.Hosts()) != 0 {
		t.Errorf("a ledger without events: %v, %v", r, err)
	}
}

// A damaged ledger is read as far as it makes sense, and goes on.
func FuzzLedger(f *testing.F) {
	f.Add([]byte("refused\trobots.txt\ta.test\t1\thttp://a.test/\nleft\t"))
	f.Add([]byte("failed\tdns\t\t-1\t\n\n\t\t\t1\t\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "ledger")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLedger(path)
		if err != nil {
			t.Fatal(err)
		}
		before := l.Totals()[KindFailed]
		if err := errors.Join(l.Add(Uncollected{KindFailed, "dns", "new.test", 3, ""}), l.Close()); err != nil {
			t.Fatal(err)
		}
		if l, err = OpenLedger(path); err != nil || before > math.MaxInt64-3 || l.Totals()[KindFailed] != before+3 {
			t.Errorf("%d failures, then %v, %v", before, l.Totals(), err)
		}
		if _, err := ReadReport(path); err != nil {
			t.Error(err)
		}
	})
}

// However much went wrong, the report of a host stays small.
func TestReportIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const hosts, each = 400, 200
	for h := range hosts {
		var events []Uncollected
		for i := range each {
			events = append(events, Uncollected{KindFailed, fmt.Sprint(i), fmt.Sprintf("h%d.test", h), 1, fmt.Sprintf("http://h%d.test/%d", h, i)})
		}
		if err := l.Add(events...); err != nil {
			t.Fatal(err)
		}
	}
	r, err := ReadReport(path)
	if err != nil {
		t.Fatal(err)
	}
	urls, failed := 0, int64(0)
	for _, h := range r.Hosts() {
		urls += len(h.URLs)
		for _, n := range h.Failed {
			failed += n
		}
		if text, err := json.Marshal(h); err != nil || len(text) > 4<<10 || !h.More {
			t.Fatalf("%d bytes of %s, more: %t, %v", len(text), h.Host, h.More, err)
		}
	}
	if urls != urlsInAll || failed != hosts*each {
		t.Errorf("%d URLs named, %d failures counted; want %d and %d", urls, failed, urlsInAll, hosts*each)
	}
}

// What is put off stands beside what is left, and is no loss; a cycle's counts outlast its batches,
// by reason.
func TestLevelsAndCycle(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLedger(filepath.Join(dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, events := range [][]Uncollected{
		{{KindFailed, "dns", "a.test", 2, ""}, {KindLeft, "window", "a.test", 70, ""}, {KindLater, "room", "a.test", 500, ""}},
		{{KindFailed, "dns", "a.test", 1, ""}, {KindFailed, "503", "a.test", 1, ""}, {KindLeft, "host", "a.test", 7, ""}, {KindLater, "room", "a.test", 400, ""}},
	} {
		if err := l.Add(events...); err != nil {
			t.Fatal(err)
		}
	}
	moved := filepath.Join(dir, "moved")
	if err := l.Move(moved); err != nil {
		t.Fatal(err)
	}
	r, err := ReadReport(moved)
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Hosts()[0]; h.Left != 7 || h.LeftWhy != "host" || h.Later != 400 || h.Failed["dns"] != 3 || len(h.URLs) > 0 {
		t.Errorf("the report says %+v", h)
	}
	if c := l.Cycle(); len(c) != 1 || c[KindFailed]["dns"] != 3 || c[KindFailed]["503"] != 1 || len(l.Totals()) != 0 {
		t.Errorf("the cycle's counts are %v, those since the batch %v", c, l.Totals())
	}
	l.BeginCycle()
	if c := l.Cycle(); len(c) != 0 {
		t.Errorf("a new cycle begins with %v", c)
	}
}

// Events that the disk does not take count when they are added again, once, and spoil none after
// them.
func TestLedgerOnFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(path)
	testkit.Must(t, err)
	var events []Uncollected
	for _, host := range []string{"a.test", "b.test", "c.test"} {
		events = append(events, Uncollected{KindFailed, "dns", host, 1, "http://" + host + "/"})
	}
	lift := testkit.FilesUpTo(t, uint64(2*len(events[0].line())+10))
	if lift == nil {
		return
	}
	if err := l.Add(events...); err == nil {
		t.Error("a full disk took the events")
	}
	lift()
	testkit.Must(t, l.Add(events...))
	testkit.Must(t, l.Close())
	l, err = OpenLedger(path)
	testkit.Must(t, err)
	defer l.Close()
	if got := l.Totals(); !reflect.DeepEqual(got, map[Kind]int64{KindFailed: 3}) {
		t.Errorf("totals %v, want three failures", got)
	}
}

// TestUploadBegunElsewhere: an upload that was begun at a target that is gone is begun again at the
// next target, and continued there.
func TestUploadBegunElsewhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "batch.tar.gz")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := Spooled{ID: "r1-20261121T030000Z-1", Path: path, Size: 10}
	var dying atomic.Bool
	dying.Store(true)
	var begun, had int
	serve := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.Method {
		case http.MethodPost:
			begun, had = begun+1, 0
			w.Header().Set("Location", wire.PathUploads+string(b.ID))
			w.WriteHeader(http.StatusCreated)
		case http.MethodHead:
			w.Header().Set("Upload-Offset", strconv.Itoa(had))
		case http.MethodPatch:
			if dying.Load() {
				panic(http.ErrAbortHandler)
			}
			had += len(body)
			w.Header().Set("Upload-Offset", strconv.Itoa(had))
			w.WriteHeader(http.StatusNoContent)
		case http.MethodPut:
			if dying.Load() {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusAccepted)
		}
	}
	first, second := httptest.NewServer(http.HandlerFunc(serve)), httptest.NewServer(http.HandlerFunc(serve))
	defer second.Close()
	at := func(url string) error { return (&HTTP{Base: url, Client: http.DefaultClient}).Send(t.Context(), b) }
	if at(first.URL) == nil {
		t.Fatal("a dying target took the batch")
	}
	first.Close()
	if at(second.URL) == nil || begun != 2 {
		t.Fatalf("begun %d times", begun)
	}
	dying.Store(false)
	if err := at(second.URL); err != nil || begun != 2 || had != 10 {
		t.Errorf("%v; begun %d times, %d bytes", err, begun, had)
	}
}
