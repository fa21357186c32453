package service

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sheaf/internal/testkit"
	"sheaf/test/metricstest"
)

// TestRunbook: whoever is woken by an alert, or finds a batch in the quarantine, has a section of
// the runbook that says what it means, how to look and what to do; and no section is about
// something that does not exist.
func TestRunbook(t *testing.T) {
	text, err := os.ReadFile("../../../docs/runbook.md")
	testkit.Must(t, err)
	sections := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		sections[title], _, _ = strings.Cut(body, "\n# ")
	}
	check := func(title string) {
		body, ok := sections[title]
		delete(sections, title)
		lower := strings.ToLower(body)
		if !ok || !strings.Contains(body, "**Means**") || !strings.Contains(lower, "**look") || !strings.Contains(lower, "**do") {
			t.Errorf("the runbook does not say what %s means, how to look and what to do", title)
		}
	}
	for _, a := range metricstest.Alerts(t) {
		check(a.Alert)
		if want := "docs/runbook.md#" + strings.ToLower(a.Alert); a.Annotations["runbook"] != want {
			t.Errorf("alert %s has runbook %q, want %s", a.Alert, a.Annotations["runbook"], want)
		}
	}
	source, err := os.ReadFile("../../../internal/wire/receipt.go")
	testkit.Must(t, err)
	reasons := regexp.MustCompile(`\tReason\w+ +Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) == 0 {
		t.Fatal("no reasons found")
	}
	for _, r := range reasons {
		check(r[1])
	}
	for title := range sections {
		t.Errorf("the runbook has a section %s, and there is no such alert or reason", title)
	}
}
