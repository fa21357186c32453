package manager_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"sheaf/archive/store"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/manager/roster"
)

const platform = "linux-amd64"

// updating is a service with robots that have joined.
type updating struct {
	*roster.Releases
	t   *testing.T
	key minisign.PrivateKey
	at  map[string]int64 // by robot, the release at work
}

func newUpdating(t *testing.T, robots int) *updating {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Source(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	_, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := store.OpenFS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { objects.Close() })
	f := &updating{roster.NewReleases(d, objects, slog.New(slog.DiscardHandler)), t, key, map[string]int64{}}
	for i := range robots {
		name := fmt.Sprintf("robot-%d", i)
		if _, err := d.ExecContext(t.Context(), `INSERT INTO robots (name, created, secret_hash) VALUES (?, 1, ?)`, name, []byte(name)); err != nil {
			t.Fatal(err)
		}
		f.at[name] = 0
		f.report(name)
	}
	if err := f.SetKey(t.Context(), key.Public().(minisign.PublicKey).String(), false); err != nil {
		t.Fatal(err)
	}
	return f
}

// report lets a robot report, and returns the counter of the release that it is offered, or 0.
func (f *updating) report(name string, failed ...int64) int64 {
	f.t.Helper()
	req := wire.ReportRequest{Version: "1", Platform: platform, Counter: f.at[name], Seen: f.at[name]}
	for _, c := range failed {
		req.Failed = append(req.Failed, wire.FailedRelease{Counter: c, Why: "no reason"})
	}
	offer, err := f.Report(f.t.Context(), name, req)
	if err != nil {
		f.t.Fatal(err)
	}
	if offer == nil {
		return 0
	}
	r, err := wire.OpenRelease([]byte(offer.Release), []byte(offer.Signature), f.key.Public().(minisign.PublicKey), time.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	return r.Counter
}

// offered returns the robots that are offered the release now.
func (f *updating) offered(counter int64) (names []string) {
	for name := range f.at {
		if f.report(name) == counter {
			names = append(names, name)
		}
	}
	return names
}

func (f *updating) publish(key minisign.PrivateKey, counter, floor int64, expires time.Time) error {
	f.t.Helper()
	program := fmt.Sprintf("program %d", counter)
	sum := sha256.Sum256([]byte(program))
	digest := hex.EncodeToString(sum[:])
	if err := f.TakeProgram(f.t.Context(), digest, strings.NewReader(program)); err != nil {
		f.t.Fatal(err)
	}
	r := wire.Release{Counter: counter, Version: "1", Floor: floor, Expires: expires.UTC().Truncate(time.Second), Files: []wire.ReleaseFile{
		{Platform: platform, Size: int64(len(program)), SHA256: digest}}}
	text, err := r.Format()
	if err != nil {
		f.t.Fatal(err)
	}
	return f.Publish(f.t.Context(), text, minisign.Sign(key, text), 0)
}

func later() time.Time { return time.Now().AddDate(0, 1, 0) }

func (f *updating) newest() roster.Release {
	f.t.Helper()
	list, err := f.List(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return list[0]
}

// TestStages shows that 1, 10 and 100 % of a hundred robots are offered a release, each stage
// when the one before has reported.
func TestStages(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	f := newUpdating(t, 100)
	if err := f.publish(f.key, 1, 0, later()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 9, 90} {
		names := f.offered(1)
		if len(names) != want {
			t.Fatalf("%d robots are offered the release, want %d", len(names), want)
		}
		if again := f.offered(1); len(again) != want {
			t.Fatalf("without a report the stage went on, to %d robots", len(again))
		}
		for _, name := range names {
			f.at[name] = 1
		}
		for _, name := range names {
			f.report(name)
		}
	}
	if r := f.newest(); r.Percent != 100 || r.Stopped != "" || r.Robots != 100 {
		t.Errorf("%+v", r)
	}
}

// TestStops shows that a release is offered to no other robot if the first one goes back.
func TestStops(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	f := newUpdating(t, 200)
	if err := f.publish(f.key, 1, 0, later()); err != nil {
		t.Fatal(err)
	}
	f.report(f.offered(1)[0], 1)
	if names := f.offered(1); names != nil {
		t.Errorf("it is still offered to %q", names)
	}
	if r := f.newest(); r.Stopped == "" || r.Failed != 1 {
		t.Errorf("%+v", r)
	}
	if r, err := f.Stopped(t.Context()); err != nil || r == nil || r.Counter != 1 {
		t.Errorf("stopped is %+v, %v", r, err)
	}
	if err := f.publish(f.key, 2, 0, later()); err != nil {
		t.Fatal(err)
	}
	if names := f.offered(2); len(names) != 2 {
		t.Errorf("the next release is offered to %d robots, want 2", len(names))
	}
}

func TestFloor(t *testing.T) {
	f := newUpdating(t, 200)
	if err := f.publish(f.key, 1, 1, later()); err != nil {
		t.Fatal(err)
	}
	if names := f.offered(1); len(names) != 200 {
		t.Errorf("%d robots below the floor are offered the release, want all 200", len(names))
	}
	if floor, err := f.BelowFloor(t.Context(), "robot-1"); err != nil || floor != 1 {
		t.Errorf("below floor %d, %v", floor, err)
	}
	f.at["robot-1"] = 1
	f.report("robot-1")
	if floor, err := f.BelowFloor(t.Context(), "robot-1"); err != nil || floor != 0 {
		t.Errorf("at the floor: below %d, %v", floor, err)
	}
}

func TestPublishRefuses(t *testing.T) {
	f := newUpdating(t, 0)
	_, other, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.publish(f.key, 5, 0, later()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		err, want error
	}{
		"another's key":  {f.publish(other, 6, 0, later()), wire.ErrReleaseSignature},
		"expires today":  {f.publish(f.key, 6, 0, time.Now().Add(time.Hour)), wire.ErrExpired},
		"counter again":  {f.publish(f.key, 5, 0, later()), roster.ErrCounter},
		"lower counter":  {f.publish(f.key, 4, 0, later()), roster.ErrCounter},
		"another key":    {f.SetKey(t.Context(), other.Public().(minisign.PublicKey).String(), false), roster.ErrKey},
		"broken program": {f.TakeProgram(t.Context(), strings.Repeat("00", 32), strings.NewReader("x")), roster.ErrProgram},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if signed, err := f.Get(t.Context(), 0); err != nil || signed.Counter != 5 {
		t.Errorf("without robots to try it, a release is for all: %+v, %v", signed.Release, err)
	}
}

// A program that was sent to one process is served by all processes on the same store, from any
// byte on.
func TestProgramsAreShared(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Source(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	var process [2]*roster.Releases
	for n := range process {
		objects, err := store.OpenFS(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { objects.Close() })
		process[n] = roster.NewReleases(d, objects, log)
	}
	const program = "a program of some length"
	sum := sha256.Sum256([]byte(program))
	f := wire.ReleaseFile{Platform: platform, Size: int64(len(program)), SHA256: hex.EncodeToString(sum[:])}
	for range 2 { // sent again it is there already
		if err := process[0].TakeProgram(t.Context(), f.SHA256, strings.NewReader(program)); err != nil {
			t.Fatal(err)
		}
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := process[1].Program(r.Context(), f)
		defer p.Close()
		http.ServeContent(w, r, "", time.Time{}, p)
	}))
	defer other.Close()
	for bytes, want := range map[string]string{"": program, "bytes=2-8": program[2:9], "bytes=-6": "length", "bytes=0-0": "a"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, other.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if bytes != "" {
			req.Header.Set("Range", bytes)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", bytes, got, err, want)
		}
	}
}
