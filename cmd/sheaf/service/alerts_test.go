package service

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
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

	"github.com/jlaffaye/ftp"
	dto "github.com/prometheus/client_model/go"
	yaml "go.yaml.in/yaml/v3"

	"sheaf/ingest/upkeep"
	"sheaf/internal/api"
	"sheaf/internal/db"
	"sheaf/internal/db/dbtest"
	"sheaf/internal/lease/etcdtest"
	"sheaf/internal/testkit"
	"sheaf/internal/transfers"
	"sheaf/manager"
	"sheaf/robotd"
	"sheaf/robotd/identity"
	"sheaf/serve/account"
	"sheaf/serve/client"
	"sheaf/serve/servetest"
	"sheaf/ui/removal"
)

// deployed is where the files for Prometheus and Grafana lie.
const deployed = "../../../deploy/"

// alert is one rule of deploy/prometheus/rules.yml.
type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile(deployed + "prometheus/rules.yml")
	testkit.Must(t, err)
	var file struct {
		Groups []struct {
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	testkit.Must(t, yaml.Unmarshal(text, &file))
	return file.Groups[0].Rules
}

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
	selector = regexp.MustCompile(`\b((?:sheaf|go|process)_\w+|up)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	shown    = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
)

// labelsOf returns the labels of a metric with their values. Prometheus itself adds instance and
// job.
func (f families) labelsOf(name string) map[string][]string {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		base := strings.TrimSuffix(name, suffix)
		if f[base] == nil || suffix != "" && f[base].GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		labels := map[string][]string{"instance": nil, "job": nil}
		if suffix == "_bucket" {
			labels["le"] = nil
		}
		for _, m := range f[base].Metric {
			for _, l := range m.Label {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
		return labels
	}
	return nil
}

// checkExpr expects that an expression asks for what a service tells. text is shown with the
// result.
func (f families) checkExpr(t *testing.T, expr, text string) {
	t.Helper()
	known := make(map[string]bool)
	found := selector.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s: no metric", expr)
	}
	for _, s := range found {
		labels := f.labelsOf(s[1])
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
	all := used(t)
	type recorded struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var panels []recorded
	for expr, legend := range dashboard(t) {
		all.checkExpr(t, expr, legend)
		panels = append(panels, recorded{fmt.Sprintf("panel:%d", len(panels)), strings.ReplaceAll(expr, "$instance", ".*")})
	}
	for _, a := range alerts(t) {
		all.checkExpr(t, a.Expr, a.Annotations["summary"])
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

// seen is what Prometheus has of a service for some time.
type seen struct {
	minutes int
	metrics families // nil: the service did not answer
}

// story is a service's scrapes one after another, and the alerts that they must set off.
type story struct {
	name   string
	scenes []seen
	fires  []string // empty: none may fire
}

// tell has promtool check stories by the rules.
func tell(t *testing.T, stories ...story) {
	t.Helper()
	type one map[string]any
	var tests []one
	for _, s := range stories {
		names := make(map[string]bool)
		for _, scene := range s.scenes {
			for name := range scene.metrics {
				if strings.HasPrefix(name, "sheaf_") && scene.metrics[name].GetType() != dto.MetricType_HISTOGRAM {
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
		for _, scene := range s.scenes {
			here := map[string]string{`up{job="sheaf"}`: "0"}
			if scene.metrics != nil {
				here[`up{job="sheaf"}`] = "1"
			}
			for name := range names {
				for _, m := range scene.metrics[name].GetMetric() {
					labels := []string{`job="sheaf"`}
					for _, l := range m.Label {
						labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
					}
					here[name+"{"+strings.Join(labels, ",")+"}"] = fmt.Sprint(m.GetGauge().GetValue() + m.GetCounter().GetValue())
				}
			}
			for key := range series {
				if here[key] == "" {
					add(key, "_", scene.minutes)
				}
			}
			for key, value := range here {
				add(key, value, scene.minutes)
			}
			minutes += scene.minutes
		}
		var input []one
		for key, values := range series {
			input = append(input, one{"series": key, "values": strings.TrimSpace(values)})
		}
		firing := fmt.Sprintf(`group by (alertname) (count_over_time(ALERTS{alertstate="firing",alertname=~"%s"}[2d]))`, strings.Join(s.fires, "|"))
		if len(s.fires) == 0 {
			firing = `group by (alertname) (count_over_time(ALERTS{alertstate="firing"}[2d]))`
		}
		var want []one
		for _, name := range s.fires {
			want = append(want, one{"labels": fmt.Sprintf("{alertname=%q}", name), "value": 1})
		}
		tests = append(tests, one{
			"name": s.name, "interval": "1m", "input_series": input,
			"promql_expr_test": []one{{"expr": firing, "eval_time": fmt.Sprintf("%dm", minutes-1), "exp_samples": want}},
		})
	}
	rules, err := filepath.Abs(deployed + "prometheus/rules.yml")
	testkit.Must(t, err)
	text, err := yaml.Marshal(one{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": tests})
	testkit.Must(t, err)
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "test.yml"), text, 0o600))
	testkit.Run(t, dir, testkit.Tool(t, "promtool"), "test", "rules", "test.yml")
}

// fault breaks a service while it runs, and returns the alerts that this sets off.
type fault struct {
	name     string
	settings map[string]any
	cause    func(t *testing.T, s *Service) (after families)
	fires    []string
}

// exec changes the database, as if time had passed or another part of the service had written.
func (s *Service) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := s.state.db.ExecContext(t.Context(), query, args...)
	testkit.Must(t, err)
}

// later makes batches and robots older, as if time had passed since.
func (s *Service) later(t *testing.T, by time.Duration) {
	t.Helper()
	s.exec(t, `UPDATE ingest_batches SET received_at = received_at - ?1, entered_at = entered_at - ?1`, by.Milliseconds())
	s.exec(t, `UPDATE robots SET seen = seen - ?`, by.Milliseconds())
	scrub, err := upkeep.ReadScrub(t.Context(), s.state.db)
	testkit.Must(t, err)
	scrub.Began, scrub.Copied = scrub.Began.Add(-by), scrub.Copied.Add(-by)
	text, err := json.Marshal(scrub)
	testkit.Must(t, err)
	s.exec(t, `UPDATE scrub SET state = ?`, string(text))
}

// breakStore takes away the directory of the object store, as when its disk is taken out.
func (s *Service) breakStore(t *testing.T) {
	t.Helper()
	dir, _ := s.cfg.StoreDir()
	testkit.Must(t, os.RemoveAll(dir))
	testkit.Must(t, os.WriteFile(dir, nil, 0o600))
}

// eventually scrapes until a metric has a value.
func eventually(t *testing.T, s *Service, want float64, name string, labels ...string) (all families) {
	t.Helper()
	testkit.Eventually(t, name, func() error {
		all = scrape(t, s)
		if got, ok := all.value(name, labels...); !ok || got != want {
			return fmt.Errorf("%s%q is %v, want %v", name, labels, got, want)
		}
		return nil
	})
	return all
}

func faults(t *testing.T) []fault {
	cluster := dbtest.Start(t)
	// certificate gives the server for batches a certificate that expires after some days.
	certificate := func(dir string, days int) map[string]any {
		cert, key := testkit.Certificate(t, "archive.example.jp", time.Now().Add(-time.Hour), time.Now().AddDate(0, 0, days))
		testkit.Must(t, os.WriteFile(dir+"/cert.pem", cert, 0o600))
		testkit.Must(t, os.WriteFile(dir+"/key.pem", key, 0o600))
		return map[string]any{"drop.cert": dir + "/cert.pem", "drop.key": dir + "/key.pem", "poll": "50ms"}
	}
	old, broken := t.TempDir(), t.TempDir()
	window := fmt.Sprintf("%s-%s UTC", time.Now().UTC().Add(2*time.Hour).Format("15:04"), time.Now().UTC().Add(3*time.Hour).Format("15:04"))
	return []fault{
		{"nothing", nil, scrapeAgain, nil},
		{"database away", map[string]any{"database.url": cluster.URL}, func(t *testing.T, s *Service) families {
			cluster.Stop()
			return eventually(t, s, 0, "sheaf_check_up", "check", "database")
		}, []string{"SheafCheckFails", "SheafMetricsMissing"}},
		{"store broken", nil, func(t *testing.T, s *Service) families {
			s.breakStore(t)
			if err := s.state.objects.Put(t.Context(), "segments/x", strings.NewReader("x"), 1); err == nil {
				t.Error("the store works")
			}
			return eventually(t, s, 0, "sheaf_check_up", "check", "store")
		}, []string{"SheafCheckFails", "SheafStoreFails"}},
		{"archive damaged", map[string]any{"store.scrub.every": "100ms", "poll": "50ms", "publish.window": "always"}, func(t *testing.T, s *Service) families {
			importFile(t, s, warcOf("http://www.example.jp/"))
			eventually(t, s, 1, "sheaf_scrub_ratio")
			dir, _ := s.cfg.StoreDir()
			damaged := 0
			testkit.Must(t, filepath.WalkDir(filepath.Join(dir, "segments"), func(path string, entry os.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				damaged++
				return os.Truncate(path, 100)
			}))
			return eventually(t, s, float64(damaged), "sheaf_scrub_lost")
		}, []string{"SheafArchiveDamaged"}},
		{"copy away", map[string]any{"store.copy": filepath.Join(old, "no such directory"), "store.scrub.every": "100ms"}, func(t *testing.T, s *Service) families {
			testkit.Until(t, "the first turn", func() bool { // it fails
				scrub, err := upkeep.ReadScrub(t.Context(), s.state.db)
				return err == nil && !scrub.Began.IsZero()
			})
			var all families
			testkit.Until(t, "the copy to be late", func() bool { // a turn that is under way would write its own time
				s.later(t, 30*time.Hour)
				all = scrape(t, s)
				age, _ := all.value("sheaf_store_copy_age_seconds")
				return age > 24*3600
			})
			return all
		}, []string{"SheafCopyBehind"}},
		{"batch stuck", nil, func(t *testing.T, s *Service) families {
			s.breakStore(t) // so that nothing can be split
			importFile(t, s, warcOf("http://www.example.jp/"))
			eventually(t, s, 1, "sheaf_batches", "state", "pre-split")
			s.later(t, 2*time.Hour)
			return scrape(t, s)
		}, []string{"SheafBufferOld"}},
		{"bad batch", map[string]any{"drop.quiet": "1s", "poll": "50ms"}, func(t *testing.T, s *Service) families {
			id := joinRobot(t, s, "waseda")
			conn, err := ftp.Dial(s.Addresses().Drop)
			testkit.Must(t, err)
			defer conn.Quit()
			testkit.Must(t, conn.Login(id.Robot, id.Secret))
			testkit.Must(t, conn.Stor("pages.tar.gz", bytes.NewReader(foreignBatch(t, "www.example.jp")))) // a host that is not its own
			return eventually(t, s, 1, "sheaf_batches", "state", "quarantined")
		}, []string{"SheafQuarantine"}},
		{"publication missed", map[string]any{"publish.window": window}, func(t *testing.T, s *Service) families {
			importFile(t, s, warcOf("http://www.example.jp/"))
			eventually(t, s, 1, "sheaf_batches", "state", "post-split")
			s.later(t, 50*time.Hour)
			return scrape(t, s)
		}, []string{"SheafPublicationMissed"}},
		{"robot silent", nil, func(t *testing.T, s *Service) families {
			joinRobot(t, s, "waseda")
			s.later(t, 3*time.Hour)
			return scrape(t, s)
		}, []string{"SheafRobotSilent"}},
		{"certificate old", certificate(old, 15), func(t *testing.T, s *Service) families {
			certificate(old, 13)
			testkit.Until(t, "the certificate is read", func() bool { return time.Until(s.certs.drop.State().NotAfter) < 14*24*time.Hour })
			return eventually(t, s, 1, "sheaf_check_up", "check", checkCertificates)
		}, []string{"SheafCertificateExpires"}},
		{"certificate broken", certificate(broken, 15), func(t *testing.T, s *Service) families {
			testkit.Must(t, os.WriteFile(broken+"/cert.pem", nil, 0o600))
			return eventually(t, s, 0, "sheaf_check_up", "check", checkCertificates)
		}, []string{"SheafCheckFails"}},
		{"mails refused", map[string]any{"watch.mail.server": "127.0.0.1:1", "watch.mail.from": "archive@example.jp", "watch.mail.tls": "none", "poll": "50ms"}, func(t *testing.T, s *Service) families {
			accounts, err := account.NewAccounts(s.state.db, nil, servetest.Cheap)
			testkit.Must(t, err)
			_, password, err := accounts.Create(t.Context(), account.Account{Name: "alice", Domains: []string{"*"}}, "")
			testkit.Must(t, err)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Addresses().HTTP+api.PathWatches, strings.NewReader(`{"host": "www.example.jp", "email": "alice@example.jp"}`))
			testkit.Must(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.SetBasicAuth("alice", password)
			resp, err := http.DefaultClient.Do(r)
			testkit.Must(t, err)
			resp.Body.Close()
			if resp.StatusCode >= 300 {
				t.Fatalf("a watch: %s", resp.Status)
			}
			askRemoval(t, s)
			eventually(t, s, 1, "sheaf_mails", "state", "failing")
			return eventually(t, s, 1, "sheaf_watch_deliveries", "channel", "mail", "state", "failing")
		}, []string{"SheafMailsFail", "SheafWatchesFail"}},
		{"removal undecided", nil, func(t *testing.T, s *Service) families {
			askRemoval(t, s)
			s.exec(t, `UPDATE removals SET state = 'proved'`)
			s.exec(t, `INSERT INTO removal_events (removal, n, at, by_whom, act, note) SELECT id, 9, ?, 'asker', 'proved', '' FROM removals`, db.Millis(time.Now().AddDate(0, 0, -4)))
			return eventually(t, s, 1, "sheaf_removals", "state", "proved")
		}, []string{"SheafRemovalUndecided"}},
	}
}

// joinRobot admits a robot, which joins.
func joinRobot(t *testing.T, s *Service, name string) *identity.Identity {
	t.Helper()
	operator, err := client.Operator(s.Addresses().HTTP, s.OperatorToken())
	testkit.Must(t, err)
	var admitted manager.AdmitResponse
	testkit.Must(t, operator.Do(t.Context(), http.MethodPost, api.PathAdminRobots, manager.AdmitRequest{Name: name}, &admitted))
	dir := t.TempDir()
	_, err = robotd.Join(t.Context(), s.Addresses().HTTP, admitted.Token, dir)
	testkit.Must(t, err)
	id, err := identity.Load(dir)
	testkit.Must(t, err)
	return id
}

// foreignBatch is a batch without a manifest, with one page of a host.
func foreignBatch(t *testing.T, host string) []byte {
	t.Helper()
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	archive := tar.NewWriter(z)
	const page = "<p>a page"
	testkit.Must(t, archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: host + "/index.html", Mode: 0o644, Size: int64(len(page)), ModTime: time.Now()}))
	_, err := archive.Write([]byte(page))
	testkit.Must(t, err)
	testkit.Must(t, archive.Close())
	testkit.Must(t, z.Close())
	return file.Bytes()
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

func scrapeAgain(t *testing.T, s *Service) families { return scrape(t, s) }

// held waits until the service has the leases that a process always holds.
func held(t *testing.T, s *Service) families {
	t.Helper()
	eventually(t, s, 1, "sheaf_lease_held", "lease", "keeper")
	return eventually(t, s, 1, "sheaf_lease_held", "lease", "urls")
}

// Each alert fires when what it is for happens to a running service, and none does before.
func TestAlertsFireByTheirFaults(t *testing.T) {
	if !testkit.Full() {
		t.Skip("starts services and breaks them: SHEAF_TEST_FULL=1")
	}
	testkit.Tool(t, "promtool")
	t.Parallel()
	var stories []story
	for _, f := range faults(t) {
		s := metered(t, f.settings)
		before := held(t, s)
		after := f.cause(t, s)
		stories = append(stories, story{f.name, []seen{{5, before}, {90, after}}, f.fires})
	}

	down, stop := start(t, meteredSettings(t, nil))
	before := held(t, down)
	testkit.Must(t, stop())
	stories = append(stories, story{"down", []seen{{5, before}, {30, nil}}, []string{"SheafDown"}})

	// A transfer that is really slow would take as long as this says.
	slow := metered(t, nil)
	held(t, slow)
	slow.transfer(t, transfers.Upload, 1000, time.Millisecond)
	first := scrape(t, slow)
	slow.transfer(t, transfers.Upload, 1<<30, 100*time.Second)
	usual := scrape(t, slow)
	slow.transfer(t, transfers.Upload, 1<<20, 100*time.Second)
	stories = append(stories, story{"slow", []seen{{60, first}, {12 * 60, usual}, {90, scrape(t, slow)}}, []string{"SheafTransferRateFell"}})
	tell(t, stories...)

	covered := map[string]bool{"SheafDiskNearlyFull": true, "SheafUploadsStopped": true, "SheafLeaseUnheld": true} // by the tests below
	for _, s := range stories {
		for _, name := range s.fires {
			covered[name] = true
		}
	}
	for _, a := range alerts(t) {
		if !covered[a.Alert] {
			t.Errorf("no fault sets off %s", a.Alert)
		}
	}
}

func TestAlertsOfFullDiskFire(t *testing.T) {
	if !testkit.Full() {
		t.Skip("starts services and breaks them: SHEAF_TEST_FULL=1")
	}
	testkit.Tool(t, "promtool")
	t.Parallel()
	data := testkit.SmallDisk(t, "size=64m")
	if data == "" {
		return // it was done in a namespace of its own
	}
	s := metered(t, map[string]any{"data": data, "uploads.full": "60", "uploads.drained": "10"})
	before := held(t, s)
	testkit.Must(t, os.WriteFile(filepath.Join(data, "else"), make([]byte, 53<<20), 0o600))
	after := eventually(t, s, 0, "sheaf_check_up", "check", "uploads")
	tell(t, story{"full", []seen{{5, before}, {60, after}}, []string{"SheafDiskNearlyFull", "SheafUploadsStopped"}}, story{"not full", []seen{{60, before}}, nil})
}

// A cluster of etcd that has lost its majority grants nothing.
func TestAlertOfLostQuorumFires(t *testing.T) {
	if !testkit.Full() {
		t.Skip("starts services and breaks them: SHEAF_TEST_FULL=1")
	}
	testkit.Tool(t, "promtool")
	t.Parallel()
	etcd := etcdtest.Start(t, 1)
	s := metered(t, map[string]any{"lease.kind": "etcd", "lease.ttl": "2s", "lease.etcd.endpoints": etcd.Endpoints()})
	before := held(t, s)
	etcd.Members[0].Kill(t)
	eventually(t, s, 0, "sheaf_lease_held", "lease", "keeper")
	after := eventually(t, s, 0, "sheaf_lease_held", "lease", "urls")
	if lost, _ := after.value("sheaf_lease_losses_total", "lease", "urls"); lost != 1 {
		t.Errorf("the lease was lost %v times", lost)
	}
	tell(t, story{"lost", []seen{{5, before}, {60, after}}, []string{"SheafLeaseUnheld"}})
}

// Without a quorum, health and the board's list of what is wrong say so.
func TestLostQuorumIsSeen(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	etcd := etcdtest.Start(t, 1)
	s := metered(t, map[string]any{"lease.kind": "etcd", "lease.ttl": "2s", "lease.etcd.endpoints": etcd.Endpoints()})
	if status, h := healthOf(t, s, ""); status != http.StatusOK || h.Status != healthOK {
		t.Fatalf("before: %d %+v", status, h)
	}
	etcd.Members[0].Kill(t)
	status, h := healthOf(t, s, "")
	if status != http.StatusOK || h.Status != healthDegraded || len(s.health.failing(t.Context())) != 1 {
		t.Errorf("without a quorum: %d %+v", status, h)
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
		"stop": "1s", "uploads.full": "100", "uploads.drained": "100", "publish.window": "never", "balance.at": "",
	}
	maps.Copy(all, settings)
	return all
}
