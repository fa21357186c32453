// Package metricstest reads a program's metrics as Prometheus does, and has promtool tell which
// alerts of deploy/prometheus they set off.
package metricstest

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sheaf/internal/metrics"
	"sheaf/internal/testkit"
)

// Families are the metrics of one scrape, by name.
type Families map[string]*Family

// Family is a metric with all its series.
type Family struct {
	Type   string // as the exposition has it, such as counter
	Series []Series
}

// Series is one value. Of histograms and summaries it is a count; their sums and buckets are left
// out.
type Series struct {
	Labels []Label
	Value  float64
}

// Label is a name and a value.
type Label struct{ Name, Value string }

var (
	line  = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)
	label = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*")`)
)

// Scrape returns the metrics that a program serves at an address, host:port.
func Scrape(t testing.TB, address string) Families {
	t.Helper()
	text := Text(t, address)
	all := make(Families)
	var of string // the family of the lines that follow
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		if rest, ok := strings.CutPrefix(l, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			of, all[name] = name, &Family{Type: kind}
		}
		if strings.HasPrefix(l, "#") {
			continue
		}
		m := line.FindStringSubmatch(l)
		if m == nil || all[of] == nil {
			t.Fatalf("a scrape has the line %q", l)
		}
		if kind := all[of].Type; (kind == "histogram" || kind == "summary") && m[1] != of+"_count" {
			continue
		}
		var s Series
		var err error
		s.Value, err = strconv.ParseFloat(m[3], 64)
		testkit.Must(t, err)
		for _, pair := range label.FindAllStringSubmatch(m[2], -1) {
			value, err := strconv.Unquote(pair[2])
			testkit.Must(t, err)
			s.Labels = append(s.Labels, Label{pair[1], value})
		}
		all[of].Series = append(all[of].Series, s)
	}
	return all
}

// Text returns the metrics as the program writes them.
func Text(t testing.TB, address string) string {
	t.Helper()
	resp, err := http.Get("http://" + address + metrics.Path)
	testkit.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("a scrape gives %s: %s", resp.Status, text)
	}
	return string(text)
}

// Eventually scrapes until a metric has a value, and returns that scrape.
func Eventually(t testing.TB, address string, want float64, name string, labels ...string) (all Families) {
	t.Helper()
	testkit.Eventually(t, name, func() error {
		all = Scrape(t, address)
		if got, ok := all.Value(name, labels...); !ok || got != want {
			return fmt.Errorf("%s%q is %v, want %v", name, labels, got, want)
		}
		return nil
	})
	return all
}

// Value returns the value of a gauge or counter with exactly these labels, names and values in
// turn, and whether the scrape has it.
func (f Families) Value(name string, labels ...string) (float64, bool) {
	for _, s := range f.Of(name) {
		same := len(s.Labels) == len(labels)/2
		for i := 0; i+1 < len(labels); i += 2 {
			same = same && slices.Contains(s.Labels, Label{labels[i], labels[i+1]})
		}
		if same {
			return s.Value, true
		}
	}
	return 0, false
}

// Of returns the series of a metric; none if there is no such metric.
func (f Families) Of(name string) []Series {
	if f[name] == nil {
		return nil
	}
	return f[name].Series
}

// series returns the values of the gauges and counters of a name, each by its metric with labels as
// Prometheus writes it. more are labels that are added, such as `job="sheaf"`.
func (f Families) series(name string, more ...string) map[string]float64 {
	all := make(map[string]float64)
	for _, s := range f.Of(name) {
		labels := slices.Clone(more)
		for _, l := range s.Labels {
			labels = append(labels, fmt.Sprintf("%s=%q", l.Name, l.Value))
		}
		key := name
		if len(labels) > 0 {
			key += "{" + strings.Join(labels, ",") + "}"
		}
		all[key] = s.Value
	}
	return all
}
