package yesterday

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sheaf/cmd/sheaf/service"
	"sheaf/ingest/ledger"
	"sheaf/internal/testkit"
	"sheaf/internal/wire"
	"sheaf/robotd"
	"sheaf/robotd/config"
	"sheaf/test/servicetest"
)

// names maps the services' names, with a port, to the addresses at which they listen. A fixture's
// robots know their service by name: an interrupted upload is at that name, and continues there.
var names sync.Map

// TestMain lets the names lead to loopback, and uses neither name server nor proxy.
func TestMain(m *testing.M) {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("these tests ask no name server")
	}}
	t := http.DefaultTransport.(*http.Transport)
	t.Proxy = nil
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if at, ok := names.Load(address); ok {
			address = at.(string)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	os.Exit(m.Run())
}

// installation is a data directory with the folders of its robots. The service runs, and the robots
// can be opened.
type installation struct {
	*testing.T
	dir     string // holds service/ and robots/
	name    string // of the service, as a host
	service *servicetest.Service
	web     *web
	client  *http.Client
}

// hostOf returns the name of the service of a fixture.
func hostOf(fixture string) string { return "archive-" + fixture + ".example.jp" }

// settings returns the service's settings: when the fixture was made, and when today's program
// opens it.
func settings(dir, name string) map[string]any {
	all := servicetest.Quiet()
	maps.Copy(all, map[string]any{
		"watch.private_webhooks": true, // one watch calls a port of loopback where nobody listens
		"data":                   filepath.Join(dir, "service"), "http.public": "http://" + name, "zone": "Asia/Tokyo",
		"packs.below": "8KiB", "hosts.suffixes": []string{"ac.jp"},
		"balance.lease":   "0s", // the robots of a fixture have been silent for long
		"tables.editions": 0,    // they are there some time after a start, or not yet
		"uploads.full":    100, "uploads.drained": 100,
	})
	return all
}

// live starts the service on a data directory, and the web as it is on a day.
func live(t *testing.T, dir, fixture string, day int) *installation {
	h := &installation{T: t, dir: dir, name: hostOf(fixture), web: newWeb(t, day)}
	h.service = servicetest.Start(t, settings(dir, h.name))
	names.Store(h.name+":80", strings.TrimPrefix(h.service.At.HTTP, "http://"))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression, transport.MaxIdleConnsPerHost = true, fetchers
	h.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return h
}

// url is the service's.
func (h *installation) url() string { return "http://" + h.name }

// robot returns the settings of one of its robots.
func (h *installation) robot(name string) config.Config {
	cfg := config.Default()
	cfg.DataDir, cfg.Contact = filepath.Join(h.dir, "robots", name), "https://robots.example.ac.jp/"
	cfg.Once, cfg.Interval, cfg.Window, cfg.Adapt.Max = true, time.Millisecond, "always", 0
	cfg.Express = 0                            // watched pages come with the other pages, so that the editions can be counted
	cfg.Page.Full = 100 * 365 * 24 * time.Hour // by default every page is taken in full after 30 days
	cfg.Disk.Free, cfg.Tap.Socket = 0, "none"
	cfg.Network.Hosts, cfg.Network.AllowPrivate = h.web.hosts(), true
	cfg.Upload.Poll, cfg.Upload.BackOff, cfg.Upload.Proxy = 20*time.Millisecond, 20*time.Millisecond, "direct"
	if name == second {
		cfg.Upload.By, cfg.Upload.FTP = "ftp", h.service.At.Drop
	}
	return cfg
}

// open opens a robot's folder until the test ends.
func (h *installation) open(name string) *robotd.Robot {
	h.Helper()
	r, err := robotd.New(h.robot(name), slog.New(slog.DiscardHandler))
	testkit.Must(h, err)
	h.Cleanup(func() { testkit.Must(h, r.Close()) })
	return r
}

// Robots. The first two are real; what the third sends is made by the test.
const (
	first  = "waseda" // uploads by HTTP
	second = "jaist"  // uploads by FTP
	third  = "etl"
)

// until waits for a condition.
func (h *installation) until(what string, done func() bool) {
	h.Helper()
	testkit.Until(h.T, what, done)
}

// batches returns the batches that the service knows, in some states.
func (h *installation) batches(states ...wire.State) (found []ledger.Batch) {
	h.Helper()
	var list struct {
		Batches []ledger.Batch `json:"batches"`
	}
	h.service.Operate(http.MethodGet, "/v1/admin/batches?limit=1000", nil, &list)
	return slices.DeleteFunc(list.Batches, func(b ledger.Batch) bool { return !slices.Contains(states, b.State) })
}

// publish waits until n batches can be published, and publishes them while the robots upload. It
// returns the edition's name.
func (h *installation) publish(n int, robots ...*robotd.Robot) string {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), testkit.Patience)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range robots {
		g.Go(func() error { return r.Drain(ctx) })
	}
	h.until("all batches wait to be published", func() bool { return len(h.batches(wire.StatePostSplit)) == n })
	var done struct {
		Batches int
		Edition string
	}
	h.service.Operate(http.MethodPost, "/v1/admin/publish", nil, &done)
	if done.Batches != n {
		h.Fatalf("%d batches were published, want %d", done.Batches, n)
	}
	testkit.Must(h, g.Wait())
	return done.Edition
}

// fsck checks all that is published.
func (h *installation) fsck(when string) {
	h.Helper()
	fsck(h.T, h.dir, h.name, when)
}

func fsck(t *testing.T, dir, name, when string) {
	t.Helper()
	cfg, err := service.Load("", settings(dir, name))
	testkit.Must(t, err)
	report, err := service.Fsck(t.Context(), cfg, true)
	testkit.Must(t, err)
	for _, p := range report.Problems {
		t.Errorf("fsck %s: %s: %s", when, p.Where, p.Detail)
	}
	if report.Verified == 0 { // what is taken down is not read
		t.Errorf("fsck %s: none of %d segments was verified", when, report.Segments)
	}
}

// do sends a request as an account, or as the operator if who is empty.
func (h *installation) do(ctx context.Context, who, method, path string, body io.Reader) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, h.url()+path, body)
	if err != nil {
		return nil, nil, err
	}
	if who == operatorName {
		req.Header.Set("Authorization", "Bearer "+h.service.Token)
	} else {
		req.SetBasicAuth(who, password(who))
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, data, err
}

// get returns a file that must be there.
func (h *installation) get(who, path string) []byte {
	h.Helper()
	resp, data, err := h.do(h.Context(), who, http.MethodGet, path, nil)
	testkit.Must(h, err)
	if resp.StatusCode != http.StatusOK {
		h.Fatalf("%s: %s: %s: %.300s", who, path, resp.Status, data)
	}
	return data
}

func (h *installation) getJSON(who, path string, v any) {
	h.Helper()
	testkit.Must(h, json.Unmarshal(h.get(who, path), v))
}

// Accounts.
const (
	operatorName = ""
	reader       = "reader" // sees everything
	student      = "alice"  // sees some, at some hours, slowly
)

// password returns an account's password. Like every secret of a fixture, it is only for tests.
func password(who string) string { return "for tests alone: " + who }
