// Command faults breaks a demo installation in one way after the other. For each fault it shows
// which alert of deploy/prometheus fires, the operators' page and the section of docs/runbook.md.
// Then it does what that section says, and shows that the alert ends:
//
//	go run ./test/faults --list
//	go run ./test/faults store certificate    # some faults; without names all, some minutes
//
// Each installation is a `sheaf serve` on loopback with a directory of its own, which is removed in
// the end. Nothing waits for hours: if a fault takes hours, the command changes the times in the
// installation's database and says so, and promtool lets Prometheus' time pass.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"sheaf/internal/testkit"
	"sheaf/test/metricstest"
)

func main() {
	list := flag.Bool("list", false, "only list the faults and their alerts")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./test/faults [--list] [FAULT...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *list {
		listAll(os.Stdout)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := run(ctx, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func listAll(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range all() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.name, strings.Join(f.alerts, ", "), f.what)
	}
	w.Flush()
}

// run shows the named faults, or all if there are no names. missing has the faults that were left
// out, with what this machine lacks for them. The error names the faults that are not as the
// runbook says.
func run(ctx context.Context, names []string, out io.Writer) (missing map[string]string, err error) {
	known := all()
	for _, name := range names {
		if !slices.ContainsFunc(known, func(f fault) bool { return f.name == name }) {
			return nil, fmt.Errorf("there is no fault %q: see --list", name)
		}
	}
	missing = make(map[string]string)
	var failed []error
	for _, f := range known {
		if len(names) > 0 && !slices.Contains(names, f.name) || ctx.Err() != nil {
			continue
		}
		fmt.Fprintf(out, "\n== %s: %s\n", f.name, f.what)
		left, err := testkit.Perform(ctx, f.name, func(t testing.TB) { f.show(t, out) })
		switch {
		case err != nil:
			fmt.Fprintf(out, "   failed   %v\n", err)
			failed = append(failed, fmt.Errorf("%s: %w", f.name, err))
		case left != "":
			fmt.Fprintf(out, "   left out %s\n", left)
			missing[f.name] = left
		}
	}
	return missing, errors.Join(append(failed, ctx.Err())...)
}

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
