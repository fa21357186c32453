package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/test/metricstest"
)

// fault is one way in which an installation breaks.
type fault struct {
	name   string
	what   string   // what happens, for people
	alerts []string // that it sets off
	reason string   // of the quarantine or the refusal, which has a section of the runbook; may be empty
	page   string   // path of the operators' page that shows it; empty: no page can
	shows  string   // words of that page
	// course prepares an installation and says what will happen to it.
	course func(d *demo) course
}

// course is what happens to an installation.
type course struct {
	settings map[string]any              // in addition to those of every demo
	history  func() []metricstest.Scene  // the scenes before the fault; nil: a service that does nothing
	cause    func() metricstest.Families // causes the fault, and returns the metrics as soon as they show it, or nil if the service does not answer
	cure     func() metricstest.Families // does what the runbook says, and returns the metrics as soon as they show the cure
}

// Minutes of Prometheus' time that the scenes take.
const (
	quiet  = 15
	broken = 90
	cured  = 60
)

// show starts an installation, breaks it, shows what an operator sees, cures it and shows that the
// alerts end.
func (f *fault) show(t testing.TB, out io.Writer) {
	testkit.Tool(t, "promtool")
	d := newDemo(t, out)
	c := f.course(d)
	d.begin(c.settings)
	scenes := []metricstest.Scene{{Minutes: quiet, Metrics: d.sound(d.scrape())}}
	if c.history != nil {
		scenes = c.history()
	}
	before := scenes[len(scenes)-1].Metrics
	after := c.cause()
	if len(f.alerts) > 0 {
		d.tell("alert", "%s: Prometheus is told that this lasts for %d minutes", strings.Join(f.alerts, ", "), broken)
	}
	f.values(d, before, after)
	f.look(d)
	for _, title := range f.sections() {
		d.tell("runbook", "docs/runbook.md#%s", strings.ToLower(title))
		d.quote(section(t, title))
	}
	healed := d.sound(c.cure())
	f.values(d, after, healed)
	scenes = append(scenes, metricstest.Scene{Minutes: broken, Metrics: after, Fires: f.alerts}, metricstest.Scene{Minutes: cured, Metrics: healed})
	metricstest.Tell(t, metricstest.Story{Name: f.name, Scenes: scenes})
	fired := "no alert"
	if len(f.alerts) > 0 {
		fired = strings.Join(f.alerts, " and ")
	}
	d.tell("end", "%s fired, nothing did before, and nothing does now", fired)
}

// sound returns metrics in which no check fails: m, or later ones. On a busy machine a check may
// not end in time, and checks are made one after the other.
func (d *demo) sound(m metricstest.Families) metricstest.Families {
	testkit.Until(d, "no check that fails", func() bool {
		for _, check := range m.Of("sheaf_check_up") {
			if check.Value == 0 {
				m = d.scrape()
				return false
			}
		}
		return true
	})
	return m
}

// sections returns the titles of the runbook's sections about the fault.
func (f *fault) sections() []string {
	if f.reason == "" {
		return f.alerts
	}
	return append(slices.Clone(f.alerts), f.reason)
}

// values shows how the metrics of the fault's alerts have changed.
func (f *fault) values(d *demo, before, after metricstest.Families) {
	for _, a := range metricstest.Alerts(d) {
		if !slices.Contains(f.alerts, a.Alert) {
			continue
		}
		was, is := a.Series(before), a.Series(after)
		names := maps.Clone(was)
		maps.Copy(names, is)
		for _, key := range slices.Sorted(maps.Keys(names)) {
			old, known := was[key]
			now, still := is[key]
			if old != now || known != still {
				d.tell("metric", "%s: %s, then %s", key, number(old, known), number(now, still))
			}
		}
	}
}

func number(v float64, known bool) string {
	if !known {
		return "not told"
	}
	return fmt.Sprintf("%.5g", v)
}

// look asks for the operators' page, which must show the fault.
func (f *fault) look(d *demo) {
	if f.page == "" {
		d.tell("page", "none shows this")
		return
	}
	at := d.url() + f.page
	req, err := http.NewRequestWithContext(d.Context(), http.MethodGet, at, nil)
	testkit.Must(d, err)
	req.Header.Set("Accept", "text/html")
	req.SetBasicAuth("ops", d.token())
	resp, err := http.DefaultClient.Do(req)
	testkit.Must(d, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(d, err)
	if !strings.Contains(string(text), f.shows) {
		d.Errorf("%s (%s) does not show %q:\n%s", f.page, resp.Status, f.shows, text)
	}
	d.tell("page", "%s shows %q", at, f.shows)
}

// section returns a section of the runbook without its title.
func section(t testing.TB, title string) string {
	text, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", "runbook.md"))
	testkit.Must(t, err)
	_, rest, found := strings.Cut(string(text), "\n## "+title+"\n")
	if !found {
		t.Fatalf("docs/runbook.md has no section %s", title)
	}
	body, _, _ := strings.Cut(rest, "\n#")
	return strings.TrimSpace(body)
}
