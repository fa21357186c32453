package commandline

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

type level string

type named struct {
	By string `json:"by" doc:"who decides"`
}

type request struct {
	named
	Level level         `query:"level" enum:"low,high"`
	Found string        `json:"found_by,omitempty" doc:"only of this robot"`
	Hosts []string      `json:"hosts"`
	Most  int64         `query:"most" default:"10" required:"true"`
	Pages *int          `json:"pages,omitempty"`
	On    *bool         `json:"on,omitempty"`
	Long  time.Duration `query:"long" default:"1h"`
}

// A request's fields are what flags, defaults and the environment say, and a field that may be left
// out stays nil unless its flag is given.
func TestFlagsAreFieldsOfARequest(t *testing.T) {
	t.Setenv("WHO", "alice")
	for line, want := range map[string]string{
		"--most 3": "low  [] 3 unset unset 1h0m0s alice",
		"--most 3 --found-by r1 --hosts a,b --hosts c --pages 0 --on=false --long 2m --by bob --level high": "high r1 [a b c] 3 0 false 2m0s bob",
		"":                    `required flag(s) "most" not set`,
		"--most many":         `invalid argument "many" for "--most" flag`,
		"--most 3 --pages no": `invalid argument "no" for "--pages" flag`,
	} {
		var in struct {
			Name string  `path:""`
			Body request `body:"json"`
		}
		got := ""
		cmd := &cobra.Command{Use: "do", RunE: func(*cobra.Command, []string) error {
			pages, on, r := "unset", "unset", in.Body
			if r.Pages != nil {
				pages = fmt.Sprint(*r.Pages)
			}
			if r.On != nil {
				on = fmt.Sprint(*r.On)
			}
			got = fmt.Sprint(r.Level, " ", r.Found, " ", r.Hosts, " ", r.Most, " ", pages, " ", on, " ", r.Long, " ", r.By)
			return nil
		}}
		Flags(cmd, &in, "level=low found_by hosts most pages on long by=$WHO")
		cmd.SetArgs(strings.Fields(line))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := Prepare(cmd, "1").Execute(); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
		help := cmd.Flags().FlagUsages()
		for _, want := range []string{`who decides (WHO) (default "alice")`, `one of low, high (default "low")`, "--found-by string", "(default 1h)", "--on"} {
			if !strings.Contains(help, want) {
				t.Errorf("no %q in\n%s", want, help)
			}
		}
	}
}

// A command takes as many arguments as its usage line names.
func TestUsageNamesArguments(t *testing.T) {
	for use, most := range map[string][2]int{
		"ls": {0, 0}, "show ID": {1, 1}, "join URL[,URL…] TOKEN": {2, 2}, "costs [HOST]": {0, 1}, "cat URL FILE...": {2, 9}, "rm HOST…": {1, 9},
		"add --reason TEXT": {0, 0}, "revoke NAME [--since TIME]": {1, 1}, "put A [B]": {1, 2},
	} {
		for n := range 10 {
			root := &cobra.Command{Use: "prog"}
			root.AddCommand(&cobra.Command{Use: use, RunE: func(*cobra.Command, []string) error { return nil }})
			root.SetArgs(append(strings.Fields(use)[:1:1], make([]string, n)...))
			if err := Prepare(root, "1").Execute(); (err == nil) != (n >= most[0] && n <= most[1]) {
				t.Errorf("%s with %d arguments: %v", use, n, err)
			}
		}
	}
}
