package admin

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runPlan runs `sheaf balance plan` on costs in a file.
func runPlan(t *testing.T, costs string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "costs.json")
	if err := os.WriteFile(file, []byte(costs), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := BalanceCommand()
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"plan", "--costs", file}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

const threeHosts = `{"t": [[4, 1, 9], [5, 6, 2]]}`

func TestBalancePlan(t *testing.T) {
	text, err := runPlan(t, threeHosts, "--json")
	var got planOutput
	if err != nil || json.Unmarshal([]byte(text), &got) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if got.Makespan != 5 || got.Bound > 5 || len(got.Assignment) != 3 || got.Assignment[1] != 0 || got.Assignment[2] != 1 {
		t.Errorf("plan %+v; want hosts 0 and 1 at robot 0, ended after 5 ms", got)
	}
	table, err := runPlan(t, threeHosts, "--explain")
	if err != nil || !strings.Contains(table, "The plan ends after 5ms") || !strings.Contains(table, "No plan ends before") {
		t.Errorf("%v: %s", err, table)
	}
}

func TestBalancePlanGoesOn(t *testing.T) {
	from := filepath.Join(t.TempDir(), "plan.json")
	os.WriteFile(from, []byte(`{"assignment": [0, 1]}`), 0o600)
	text, err := runPlan(t, threeHosts, "--from", from, "--json")
	var got planOutput
	if err != nil || json.Unmarshal([]byte(text), &got) != nil || got.Moved != 1 || got.Makespan != 5 {
		t.Fatalf("%v: %s; want host 1 moved and nothing else", err, text)
	}
}

func TestBalancePlanByThePaper(t *testing.T) {
	text, err := runPlan(t, `{"t": [[4, 1, 9, null], [5, 6, 2, 3]], "distance": [[0, 1], [1, 0]]}`, "--method", "paper", "--json")
	var got planOutput
	if err != nil || json.Unmarshal([]byte(text), &got) != nil || len(got.Assignment) != 4 || got.Assignment[3] != 1 {
		t.Fatalf("%v: %s", err, text)
	}
}

func TestBalancePlanSaysWhatIsWrong(t *testing.T) {
	for _, bad := range []struct{ costs, say string }{
		{`{"t": [[1, 2], [3]]}`, "robot 1 has costs of 1 hosts"},
		{`{"t": [[1, "x"]]}`, "row 0, host 1"},
		{`{"t": [[1, -2]]}`, "host 1 at robot 0"},
		{`{"t": [[null], [null]]}`, "host 0 can be collected by no robot"},
		{`{"t": 3}`, "want {"},
		{`{}`, "no robots"},
		{`{"t": [[1], [2]], "distance": [[0]]}`, "distance: row 0"},
	} {
		if _, err := runPlan(t, bad.costs); err == nil || !strings.Contains(err.Error(), bad.say) {
			t.Errorf("%s: error %v, want one that says %q", bad.costs, err, bad.say)
		}
	}
	if _, err := runPlan(t, threeHosts, "--method", "guess"); err == nil || !strings.Contains(err.Error(), "optimal or paper") {
		t.Errorf("an unknown method: %v", err)
	}
}
