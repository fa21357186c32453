package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/test/metricstest"
)

func TestMain(m *testing.M) { testkit.InMemory(m) }

// For each fault the alert fires, the operators' page shows it, and what the runbook says ends it.
func TestFaults(t *testing.T) {
	testkit.Slow(t)
	testkit.Tool(t, "promtool")
	for _, f := range all() {
		t.Run(f.name, func(t *testing.T) {
			if !slices.Contains([]string{"missed", "removal", "clock"}, f.name) {
				testkit.Long(t)
			}
			var out bytes.Buffer
			missing, err := run(t.Context(), []string{f.name}, &out)
			if err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			if why := missing[f.name]; why != "" {
				testkit.Missing(t, "%s", why)
			}
			for _, title := range f.sections() {
				if !strings.Contains(out.String(), "docs/runbook.md#"+strings.ToLower(title)+"\n") {
					t.Errorf("%s is not shown:\n%s", title, &out)
				}
			}
		})
	}
}

// Every alert and every reason for which a batch is refused has a fault.
func TestEveryAlertHasAFault(t *testing.T) {
	made := make(map[string]bool)
	for _, f := range all() {
		for _, title := range f.sections() {
			made[title] = true
		}
	}
	for _, a := range metricstest.Alerts(t) {
		if !made[a.Alert] {
			t.Errorf("no fault sets off %s", a.Alert)
		}
	}
	source, err := os.ReadFile(filepath.Join(testkit.Root(t), "internal/wire/receipt.go"))
	testkit.Must(t, err)
	for _, reason := range regexp.MustCompile(`\tReason\w+ +Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		if !made[reason[1]] {
			t.Errorf("no batch is refused because of %s", reason[1])
		}
	}
}

// A fault whose alert does not fire fails the command.
func TestCommandFailsWithTheFault(t *testing.T) {
	testkit.Slow(t)
	testkit.Tool(t, "promtool")
	healthy := fault{name: "nothing", alerts: []string{"SheafDown"}, course: func(d *demo) course {
		return course{cause: d.scrape, cure: d.scrape}
	}}
	if _, err := testkit.Perform(t.Context(), "nothing", func(t testing.TB) { healthy.show(t, &bytes.Buffer{}) }); err == nil || !strings.Contains(err.Error(), "SheafDown") {
		t.Errorf("nothing is wrong, and the command says: %v", err)
	}
	if _, err := run(t.Context(), []string{"flood"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "flood") {
		t.Errorf("an unknown fault: %v", err)
	}
}
