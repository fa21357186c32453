package demo

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/archive/store/storetest"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/testkit"
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

// checking checks each day once it is published, and the pages for people at the end.
type checking struct {
	kept
	t       *testing.T
	web     *web // as the demo's
	fetcher *consumer
	checked []int // pages of each edition
}

func (c *checking) Tell(e Event) {
	c.kept.Tell(e)
	switch e.Kind {
	case "ready":
		c.fetcher = newConsumer(c.t, e)
	case "published":
		want := c.web.Pages(1)
		if e.Day == 2 {
			want = changed(c.t, c.web)
		}
		c.fetcher.checkDay(c.t, c.web, e.Day, e.Edition+".tar.gz", want)
		c.fetcher.checkDay(c.t, c.web, e.Day, "current.tar.gz", c.web.Pages(e.Day))
		c.checked = append(c.checked, len(want))
	}
}

func (c *checking) Report(r Report) {
	c.kept.Report(r)
	checkPages(c.t, c.web, r)
}

// TestOnce is the whole way through, on each kind of store, with hosts in objects of their own and
// in packs. Each page must be in the archives, byte for byte, by FTP and by HTTP; every home page
// opens from the front page, and an operator sees the robots and releases a batch.
func TestOnce(t *testing.T) {
	testkit.Long(t)
	for _, c := range []struct {
		name       string
		start      func(testing.TB) *storetest.S3Server // nil: a directory
		below      string
		own, packs bool // where there are objects
	}{
		{"own objects", nil, "0", true, false},
		{"packs", nil, "256MiB", false, true},
		{"mixed", nil, "64KiB", true, true},
		{"versitygw mixed", storetest.StartVersity, "64KiB", true, true},
		{"minio own objects", storetest.StartMinIO, "0", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			settings := map[string]any{"packs.below": c.below}
			if c.start != nil {
				o := c.start(t).Options(t)
				maps.Copy(settings, map[string]any{"store.kind": "s3", "store.endpoint": o.Endpoint, "store.bucket": o.Bucket,
					"store.prefix": "demo", "store.access_key": o.AccessKey, "store.secret_key": o.SecretKey})
			}
			once(t, Options{Once: true, Data: data, Settings: settings})
			settings["data"] = filepath.Join(data, "service")
			cfg, err := service.Load("", settings)
			if err != nil {
				t.Fatal(err)
			}
			st, err := service.OpenStore(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			for prefix, want := range map[string]bool{"segments/": c.own, "packs/": c.packs} {
				some := false
				for _, err := range st.List(t.Context(), prefix, "") {
					if err != nil {
						t.Fatal(err)
					}
					some = true
				}
				if some != want {
					t.Errorf("objects under %s: %v, want %v", prefix, some, want)
				}
			}
			report, err := catalog.Fsck(t.Context(), st, catalog.FsckOptions{Deep: true, TempDir: t.TempDir()})
			if err != nil || !report.OK() || report.Segments == 0 || report.Verified != report.Segments {
				t.Errorf("fsck: %+v, %v", report, err)
			}
		})
	}
}

func once(t *testing.T, opt Options) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w, err := startWeb()
	testkit.Must(t, err)
	defer w.stop()
	k := checking{t: t, web: w}
	testkit.Must(t, Run(ctx, opt, &k))
	if len(k.checked) != 2 || k.checked[0] < 400 || k.checked[1] == 0 || k.checked[1] > 20 {
		t.Errorf("checked %v; want all pages of day 1, and on day 2 the few that changed", k.checked)
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

// What the demo prints first leads to the front page and the board, with a log-in for each.
func TestReportNamesLogins(t *testing.T) {
	var out strings.Builder
	Text(&out).Report(Report{HTTP: "http://127.0.0.1:1", Account: "demo", Password: "reader's", Operator: "operator", OperatorPassword: "operator's"})
	first, _, _ := strings.Cut(out.String(), "Transfer rates")
	for _, want := range []string{"http://127.0.0.1:1/ ", "/login", "demo  with password  reader's\n", "operator  with password  operator's\n", "http://127.0.0.1:1/board/ "} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in %q", want, first)
		}
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
	name := naming.FileName(host, page)
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
