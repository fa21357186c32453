package service

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"sheaf/internal/lease"
	"sheaf/internal/lease/quorum"
	"sheaf/internal/testkit"
	"sheaf/test/metricstest"
	"sheaf/ui/removal"
)

// deployed is where the files for Prometheus and Grafana lie.
const deployed = "../../../deploy/"

// dashboard returns the expressions of deploy/grafana/sheaf.json with their legends.
func dashboard(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(deployed + "grafana/sheaf.json")
	testkit.Must(t, err)
	var board struct {
		Panels []struct {
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	testkit.Must(t, json.Unmarshal(text, &board))
	all := make(map[string]string)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			all[target.Expr] = target.LegendFormat
		}
	}
	return all
}

var (
	matcher  = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	shown    = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
)

// labelsOf returns the labels of a metric with their values. Prometheus itself adds instance and
// job.
func labelsOf(f metricstest.Families, name string) map[string][]string {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		base := strings.TrimSuffix(name, suffix)
		if f[base] == nil || suffix != "" && f[base].Type != "histogram" {
			continue
		}
		labels := map[string][]string{"instance": nil, "job": nil}
		if suffix == "_bucket" {
			labels["le"] = nil
		}
		for _, s := range f[base].Series {
			for _, l := range s.Labels {
				labels[l.Name] = append(labels[l.Name], l.Value)
			}
		}
		return labels
	}
	return nil
}

// checkExpr expects that an expression asks for what a service tells. text is shown with the
// result.
func checkExpr(t *testing.T, f metricstest.Families, expr, text string) {
	t.Helper()
	known := make(map[string]bool)
	found := metricstest.Selector.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s: no metric", expr)
	}
	for _, s := range found {
		labels := labelsOf(f, s[1])
		if s[1] == "up" {
			labels = map[string][]string{"instance": nil, "job": {"sheaf"}}
		}
		if labels == nil {
			t.Errorf("%s: the service tells no %s", expr, s[1])
			continue
		}
		for name := range labels {
			known[name] = true
		}
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			values, ok := labels[m[1]]
			if !ok {
				t.Errorf("%s: %s has no label %s", expr, s[1], m[1])
			}
			if m[1] == "instance" || m[1] == "job" || m[2] == "!=" {
				continue
			}
			for value := range strings.SplitSeq(m[3], "|") {
				if !slices.Contains(values, value) {
					t.Errorf("%s: %s is never %q: %q", expr, m[1], value, values)
				}
			}
		}
	}
	for _, g := range append(grouping.FindAllStringSubmatch(expr, -1), shown.FindAllStringSubmatch(text, -1)...) {
		for name := range strings.SplitSeq(g[1], ",") {
			if name = strings.TrimSpace(name); !known[name] {
				t.Errorf("%s: no metric in it has the label %s", expr, name)
			}
		}
	}
}

// Every expression of the alerts and of the dashboard asks for metrics and labels that a service
// really tells, and is one for Prometheus.
func TestAlertsAndDashboardAskForRealMetrics(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	all := scrape(t, used(t))
	type recorded struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var panels []recorded
	for expr, legend := range dashboard(t) {
		checkExpr(t, all, expr, legend)
		panels = append(panels, recorded{fmt.Sprintf("panel:%d", len(panels)), strings.ReplaceAll(expr, "$instance", ".*")})
	}
	for _, a := range metricstest.Alerts(t) {
		checkExpr(t, all, a.Expr, a.Annotations["summary"])
	}
	if len(panels) < 30 {
		t.Errorf("the dashboard has %d expressions", len(panels))
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": panels}}})
	testkit.Must(t, err)
	file := filepath.Join(t.TempDir(), "panels.yml")
	testkit.Must(t, os.WriteFile(file, text, 0o600))
	tool := testkit.Tool(t, "promtool")
	testkit.Run(t, deployed+"prometheus", tool, "check", "rules", "rules.yml", file)
	testkit.Run(t, deployed+"prometheus", tool, "check", "config", "prometheus.yml")
	testkit.Run(t, deployed+"prometheus", tool, "test", "rules", "rules_test.yml")
}

// askRemoval asks for the removal of a host, as its owner does, and returns the answer.
func askRemoval(t *testing.T, s *Service) *httptest.ResponseRecorder {
	t.Helper()
	asked := browse(s, http.MethodPost, removal.Path, "", "", url.Values{
		"wish": {"removal"}, "kind": {"host"}, "target": {"www.example.jp"}, "email": {"owner@mail.example"}, "reason": {"it is ours"},
	})
	if asked.Code != http.StatusSeeOther {
		t.Fatalf("a request for removal: %d %s", asked.Code, asked.Body)
	}
	return asked
}

// held waits until the service has the leases that a process always holds.
func held(t *testing.T, s *Service) {
	t.Helper()
	for _, lease := range []string{"keeper", "urls"} {
		metricstest.Eventually(t, s.Addresses().Metrics, 1, "sheaf_lease_held", "lease", lease)
	}
}

// Without a quorum, health and the board's list of what is wrong say so.
func TestLostQuorumIsSeen(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	address, secret := l.Addr().String(), "a secret of the servers of a test"
	server, err := quorum.Open(quorum.Options{
		Options: lease.Options{TTL: 2 * time.Second}, Members: []string{address}, Secret: []byte(secret),
		Listener: l, Address: address, File: filepath.Join(t.TempDir(), "leases.json"),
	})
	testkit.Must(t, err)
	t.Cleanup(func() { server.Close() })
	s := metered(t, map[string]any{"lease.kind": "quorum", "lease.ttl": "2s", "lease.quorum.members": address, "lease.quorum.secret": secret})
	if status, h := healthOf(t, s, ""); status != http.StatusOK || h.Status != healthOK {
		t.Fatalf("before: %d %+v", status, h)
	}
	testkit.Must(t, server.Close())
	status, h := healthOf(t, s, "")
	if status != http.StatusServiceUnavailable || h.Status != healthDegraded || len(s.health.failing(t.Context())) != 1 {
		t.Errorf("without a quorum: %d %+v", status, h)
	}
	if status, _ := healthOf(t, s, "?role=serve"); status != http.StatusOK { // which needs no lease
		t.Errorf("without a quorum, to serve: %d", status)
	}
	for _, f := range s.health.failing(t.Context()) {
		if f.What != checkLeases || !strings.Contains(f.Why, "majority") {
			t.Errorf("the board says %+v", f)
		}
	}
}

// meteredSettings are the settings of a service with metrics.
func meteredSettings(t *testing.T, settings map[string]any) map[string]any {
	t.Helper()
	all := map[string]any{
		"data": t.TempDir(), "http.listen": "127.0.0.1:0", "metrics": "127.0.0.1:0", "download.listen": "127.0.0.1:0", "drop.listen": "127.0.0.1:0",
		"stop": "1s", "uploads.full": "100", "publish.window": "never", "balance.at": "",
	}
	maps.Copy(all, settings)
	return all
}
