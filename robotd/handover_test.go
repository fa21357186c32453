package robotd

import (
	"bytes"
	"crypto/ed25519"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd/batch"
	"sheaf/robotd/client"
	"sheaf/robotd/config"
	"sheaf/robotd/frontier"
	"sheaf/robotd/polite"
	"sheaf/robotd/revisit"
)

// newPassing returns a robot's passing over an empty folder, with its log.
func newPassing(t *testing.T, url string, service ed25519.PublicKey) (*passing, *bytes.Buffer) {
	t.Helper()
	dir, log := t.TempDir(), new(bytes.Buffer)
	r := &Robot{
		cfg: config.Config{Visits: config.Visits{Interval: time.Minute}}, client: client.New([]string{url}, "taker", "secret", http.DefaultClient),
		id:  &client.Identity{JoinResponse: wire.JoinResponse{Robot: "taker"}, Key: ed25519.NewKeyFromSeed(make([]byte, 32))},
		log: slog.New(slog.NewTextHandler(log, nil)),
	}
	var err error
	r.records.Frontier, err = frontier.Open(filepath.Join(dir, "frontier"), 1)
	testkit.Must(t, err)
	r.manners.Rules, err = polite.OpenRules(filepath.Join(dir, "robots"))
	testkit.Must(t, err)
	r.manners.Restraints, err = polite.OpenRestraints(filepath.Join(dir, "restraints"))
	testkit.Must(t, err)
	r.servers, err = revisit.OpenServers(filepath.Join(dir, "servers"))
	testkit.Must(t, err)
	return &passing{robot: r, service: wire.OneKey(service)}, log
}

// A hand-over that is cut, forged, of another host or for another robot, and one by a clock that is
// hours off: what is wrong is refused with a reason, the host begins anew, and nothing is held up.
// The clock does not matter. One that is taken twice is entered once.
func TestTakeOver(t *testing.T) {
	public, service, err := ed25519.GenerateKey(nil)
	testkit.Must(t, err)
	_, other, err := ed25519.GenerateKey(nil)
	testkit.Must(t, err)
	known, err := frontier.Open(t.TempDir(), 1)
	testkit.Must(t, err)
	host, err := known.Host("a.test")
	testkit.Must(t, err)
	_, err = host.Push(frontier.Entry{URL: "http://a.test/"}, frontier.Entry{URL: "http://a.test/2"})
	testkit.Must(t, err)
	var body bytes.Buffer
	_, _, err = host.Export(&body, true)
	testkit.Must(t, err)
	file := func(change func(*wire.Handover), key ed25519.PrivateKey, body []byte) []byte {
		h := &wire.Handover{Format: wire.HandoverFormat, Robot: "giver", To: "taker", Host: "a.test", Generation: 1, Made: time.Now()}
		change(h)
		head, err := h.File(int64(len(body)), wire.Digest(body), key)
		testkit.Must(t, err)
		return append(head, body...)
	}
	as := func(*wire.Handover) {}
	right := file(as, service, body.Bytes())
	for name, c := range map[string]struct {
		file  []byte
		why   string // in the log; empty: it is taken over
		again bool   // the robot is to try again
	}{
		"right":           {file: right},
		"clock behind":    {file: file(func(h *wire.Handover) { h.Made = time.Now().Add(-30 * time.Hour) }, service, body.Bytes())},
		"clock ahead":     {file: file(func(h *wire.Handover) { h.Made = time.Now().Add(30 * time.Hour) }, service, body.Bytes())},
		"cut":             {file: right[:len(right)-3], why: "not what the head says"},
		"cut in the head": {file: right[:20], why: "no whole head"},
		"longer":          {file: append(bytes.Clone(right), 'x'), why: "not what the head says"},
		"body cut":        {file: file(as, service, body.Bytes()[:body.Len()/2]), why: "no hand-over of this host"},
		"forged":          {file: file(as, other, body.Bytes()), why: "signature"},
		"of another host": {file: file(func(h *wire.Handover) { h.Host = "b.test" }, service, body.Bytes()), why: "it is of b.test"},
		"for another":     {file: file(func(h *wire.Handover) { h.To = "third" }, service, body.Bytes()), why: "for robot"},
		"not there":       {file: nil, why: "404"},
		"broken off":      {file: right, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				if c.file == nil {
					http.NotFound(w, r)
					return
				}
				if c.again {
					w.Header().Set("Content-Length", "100000")
				}
				w.Write(c.file)
			}))
			defer srv.Close()
			p, log := newPassing(t, srv.URL, public)
			for range 2 {
				err := p.takeOver(t.Context(), map[string]string{"a.test": "digest"}, []string{"a.test"})
				if (err != nil) != c.again {
					t.Fatalf("%v; to be tried again: %t", err, c.again)
				}
			}
			taken := c.why == "" && !c.again
			if p.robot.records.Frontier.Has("a.test") != taken || !strings.Contains(log.String(), c.why) {
				t.Errorf("taken over: %t, with the log\n%s\nwant %q", !taken, log, c.why)
			}
			if taken && asked != 1 {
				t.Errorf("it was got %d times", asked)
			}
		})
	}
}

// A host that the service cannot take is tried three times and then given up, whichever other hosts
// are handed over with it, so that the robot comes to its new list.
func TestHandOverGivesUp(t *testing.T) {
	for _, bad := range [][]string{{"a.test"}, {"b.test"}, {"a.test", "b.test"}} {
		public, _, err := ed25519.GenerateKey(nil)
		testkit.Must(t, err)
		asked := make(map[string]int)
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			head, body, err := wire.OpenHandover(r.Body, ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey))
			testkit.Must(t, err)
			_, err = io.Copy(io.Discard, body)
			testkit.Must(t, err)
			if asked[head.Host]++; slices.Contains(bad, head.Host) {
				w.WriteHeader(http.StatusInsufficientStorage)
			}
		}))
		defer service.Close()
		p, log := newPassing(t, service.URL, public)
		p.robot.records.Batches, err = batch.Open(t.TempDir(), 1, batch.Options{Robot: "taker", Version: "0", Key: p.robot.id.Key})
		testkit.Must(t, err)
		names := []string{"a.test", "b.test"}
		for _, name := range names {
			host, err := p.robot.records.Frontier.Host(name)
			testkit.Must(t, err)
			_, err = host.Push(frontier.Entry{URL: "http://" + name + "/"})
			testkit.Must(t, err)
		}
		calls := 1
		for ; p.handOver(t.Context(), 1, names) != nil && calls < 10; calls++ {
		}
		if calls != patience {
			t.Errorf("%v bad: %d calls\n%s", bad, calls, log)
		}
		for _, name := range bad {
			if asked[name] != patience {
				t.Errorf("%v bad: %s is tried %d times", bad, name, asked[name])
			}
		}
	}
}
