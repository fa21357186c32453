package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"sheaf/internal/testkit"
)

// nights makes the rows of nights with wrong predictions. Tests of the manager play them, since
// they need its insides.
func nights(t testing.TB) []row {
	cmd := exec.Command("go", "test", "-count=1", "-v", "-run", "^(TestPredictedNights|TestNightWithWrongPredictions)$", "./manager")
	cmd.Env = append(os.Environ(), "SHEAF_TEST_FULL=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go test ./manager: %v: %s", err, out)
	}
	find := func(pattern string) []string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(string(out))
		if m == nil {
			t.Fatalf("go test ./manager prints nothing like %s", pattern)
		}
		return m[1:]
	}
	off := find(`(\d+) predictions: median error ([\d.]+), nine in ten within ([\d.]+)`)
	night := find(`(\d+) robots, (\d+) hosts: (\S+) by the plan, (\S+) with taking over: ([\d.]+) of it`)
	ends := find(`the first robot ends at ([\d.]+) of the night by the plan, at ([\d.]+) with taking over; (\d+) hosts moved`)
	perCent := func(part string) string {
		f, _ := strconv.ParseFloat(part, 64) // it matched
		return fmt.Sprintf("%.1f %%", 100*f)
	}
	var took [2]time.Duration
	for i := range took {
		took[i], err = time.ParseDuration(night[2+i])
		testkit.Must(t, err)
	}
	played := fmt.Sprintf("a night of %s robots and %s hosts, played with the manager as it is: each twentieth host takes ten times as long as predicted, lines are up to 30 %% off", night[0], night[1])
	return []row{
		{"001", "T5–T7", "how far ends of robots were from the prediction", "−88 to +41 %", "median " + perCent(off[1]) + ", nine in ten within " + perCent(off[2]), "4 played robots, nights 2 and 3; the paper's nights on the web of 1998 cannot be had again"},
		{"000", "Fig. 4.17", "end of the first robot, as a part of the night, without and with levelling", "deviation mostly below 10,000 of 83,564 pages", ends[0] + " and " + ends[1], played},
		{"000", "Fig. 4.18–4.19", "levellings within the night", "34, of 4–158 s", ends[2] + " hosts handed over, one by one", "the same"},
		{"000", "4.3", "the night with levelling, as a part of that without", "", night[4], "the same; " + took[0].Round(time.Minute).String() + " without"},
	}
}
