// Package metricstest reads a program's metrics as Prometheus does, and has promtool tell which
// alerts of deploy/prometheus they set off.
package metricstest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"sheaf/internal/metrics"
	"sheaf/internal/testkit"
)

// Families are the metrics of one scrape, by name.
type Families map[string]*dto.MetricFamily

// Scrape asks the program that has its metrics at an address, host:port.
func Scrape(t testing.TB, address string) Families {
	t.Helper()
	resp, err := http.Get("http://" + address + metrics.Path)
	testkit.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("a scrape gives %s: %s", resp.Status, text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	testkit.Must(t, err)
	return all
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

// Value returns the value of a gauge or counter with these labels, names and values in turn, and
// whether there is one.
func (f Families) Value(name string, labels ...string) (float64, bool) {
	for _, m := range f[name].GetMetric() {
		have := make(map[string]string)
		for _, l := range m.Label {
			have[l.GetName()] = l.GetValue()
		}
		same := len(have) == len(labels)/2
		for i := 0; i+1 < len(labels); i += 2 {
			same = same && have[labels[i]] == labels[i+1]
		}
		if same {
			return valueOf(m), true
		}
	}
	return 0, false
}

// valueOf returns the value of a gauge or counter.
func valueOf(m *dto.Metric) float64 { return m.GetGauge().GetValue() + m.GetCounter().GetValue() }

// series returns the values of the gauges and counters of a name, each by its metric with labels as
// Prometheus writes it. more are labels that are added, such as `job="sheaf"`.
func (f Families) series(name string, more ...string) map[string]float64 {
	all := make(map[string]float64)
	for _, m := range f[name].GetMetric() {
		var labels []byte
		for _, l := range more {
			labels = append(labels, l+","...)
		}
		for _, l := range m.Label {
			labels = fmt.Appendf(labels, "%s=%q,", l.GetName(), l.GetValue())
		}
		key := name
		if len(labels) > 0 {
			key += "{" + string(labels[:len(labels)-1]) + "}"
		}
		all[key] = valueOf(m)
	}
	return all
}
