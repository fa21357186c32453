package metricstest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"

	"sheaf/internal/testkit"
)

// Alert is one rule of deploy/prometheus/rules.yml.
type Alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Annotations map[string]string `yaml:"annotations"`
}

// rules returns the path of the alerts' file.
func rules(t testing.TB) string {
	t.Helper()
	return filepath.Join(testkit.Root(t), "deploy", "prometheus", "rules.yml")
}

// Alerts returns all rules.
func Alerts(t testing.TB) []Alert {
	t.Helper()
	text, err := os.ReadFile(rules(t))
	testkit.Must(t, err)
	var file struct {
		Groups []struct {
			Rules []Alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	testkit.Must(t, yaml.Unmarshal(text, &file))
	return file.Groups[0].Rules
}

// Selector finds the metrics of an expression: the name, and what is between its braces.
var Selector = regexp.MustCompile(`\b((?:sheaf|go|process)_\w+|up)\b(?:\{([^}]*)\})?`)

// Series returns a scrape's values of the metrics in the alert's expression, each by its metric
// with labels. It ignores the expression's selectors by labels.
func (a *Alert) Series(of Families) map[string]float64 {
	all := make(map[string]float64)
	for _, s := range Selector.FindAllStringSubmatch(a.Expr, -1) {
		maps.Copy(all, of.series(s[1]))
	}
	return all
}

// Scene is what Prometheus has of a program for some time.
type Scene struct {
	Minutes int
	Metrics Families // nil: the program did not answer
	Fires   []string // the alerts that fire at some time of the scene; empty: no alert fires at its end
}

// Story is a program's scrapes one after another.
type Story struct {
	Name   string
	Scenes []Scene
}

type object map[string]any // of YAML

// Tell fails the test unless each story fires exactly the alerts that it names, by rules.yml. It
// runs promtool, which simulates the time of the scenes.
func Tell(t testing.TB, stories ...Story) {
	t.Helper()
	watched := make(map[string]bool) // metrics of the alerts' expressions: no other sets one off
	for _, a := range Alerts(t) {
		for _, selected := range Selector.FindAllStringSubmatch(a.Expr, -1) {
			watched[selected[1]] = true
		}
	}
	var tests []object
	for _, s := range stories {
		tests = append(tests, s.test(watched))
	}
	text, err := yaml.Marshal(object{"rule_files": []string{rules(t)}, "evaluation_interval": "1m", "tests": tests})
	testkit.Must(t, err)
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "test.yml"), text, 0o600))
	testkit.Run(t, dir, testkit.Tool(t, "promtool"), "test", "rules", "test.yml")
}

// test returns a story, with the series of the watched metrics, as one of promtool's tests.
func (s *Story) test(watched map[string]bool) object {
	var wanted []object
	minutes := 0
	for _, scene := range s.Scenes {
		began := minutes
		minutes += scene.Minutes
		var want []object
		firing := `group by (alertname) (ALERTS{alertstate="firing"})`
		if len(scene.Fires) > 0 {
			firing = fmt.Sprintf(`group by (alertname) (count_over_time(ALERTS{alertstate="firing",alertname=~"%s"}[%dm]))`, strings.Join(scene.Fires, "|"), minutes-began)
		}
		for _, name := range scene.Fires {
			want = append(want, object{"labels": fmt.Sprintf("{alertname=%q}", name), "value": 1})
		}
		wanted = append(wanted, object{"expr": firing, "eval_time": fmt.Sprintf("%dm", minutes-1), "exp_samples": want})
	}
	return object{"name": s.Name, "interval": "1m", "input_series": s.input(watched), "promql_expr_test": wanted}
}

// input returns the story's series of the watched metrics as promtool reads them.
func (s *Story) input(watched map[string]bool) (input []object) {
	names := make(map[string]bool)
	for _, scene := range s.Scenes {
		for name, family := range scene.Metrics {
			if watched[name] && family.Type != "histogram" {
				names[name] = true
			}
		}
	}
	minutes, series := 0, make(map[string]string)
	add := func(key, value string, n int) {
		if series[key] == "" && minutes > 0 {
			series[key] = fmt.Sprintf("_x%d", minutes-1)
		}
		series[key] += fmt.Sprintf(" %sx%d", value, n-1)
	}
	for _, scene := range s.Scenes {
		here := map[string]float64{`up{job="sheaf"}`: 0}
		if scene.Metrics != nil {
			here[`up{job="sheaf"}`] = 1
		}
		for name := range names {
			maps.Copy(here, scene.Metrics.series(name, `job="sheaf"`))
		}
		for key := range series {
			if _, ok := here[key]; !ok {
				add(key, "_", scene.Minutes)
			}
		}
		for key, value := range here {
			add(key, fmt.Sprint(value), scene.Minutes)
		}
		minutes += scene.Minutes
	}
	for key, values := range series {
		input = append(input, object{"series": key, "values": strings.TrimSpace(values)})
	}
	return input
}
