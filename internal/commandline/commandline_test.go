package commandline

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// program is a program with a group of commands and one command of its own.
func program(run func() error) *cobra.Command {
	root := &cobra.Command{Use: "prog"}
	host := &cobra.Command{Use: "host"}
	takedown := &cobra.Command{
		Use: "takedown HOST", Args: cobra.ExactArgs(1),
		RunE: func(*cobra.Command, []string) error { return run() },
	}
	takedown.Flags().Bool("force", false, "")
	host.AddCommand(takedown, &cobra.Command{Use: "ls", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }})
	root.AddCommand(host)
	return Prepare(root, "1.2.3")
}

// TestWrongWords shows that a script notices a command that was not carried out.
func TestWrongWords(t *testing.T) {
	for _, c := range []struct {
		line string
		code int
		says string // "" where nothing is said
	}{
		{"host takedown www.example.jp", 0, ""},
		{"host takedwn www.example.jp", 2, `there is no command "host takedwn"; did you mean takedown?`},
		{"hots ls", 2, `there is no command "hots"; did you mean host?`},
		{"host xyzzy", 2, `there is no command "host xyzzy"; see prog host --help`},
		{"host takedown", 2, "usage: prog host takedown HOST"},
		{"host takedown a b", 2, "usage: prog host takedown HOST"},
		{"host ls x", 2, `takes no argument, but was given ["x"]; usage: prog host ls`},
		{"host takedown --froce x", 2, "unknown flag: --froce"},
		{"host", 0, ""},
		{"", 0, ""},
		{"--version", 0, ""},
		{"host --help", 0, ""},
	} {
		ran := false
		root := program(func() error { ran = true; return nil })
		root.SetArgs(strings.Fields(c.line))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		err := root.Execute()
		if Code(err) != c.code {
			t.Errorf("%q: code %d (%v), want %d", c.line, Code(err), err, c.code)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%q says %v, want %q", c.line, err, c.says)
		}
		if ran && c.code != 0 {
			t.Errorf("%q was carried out", c.line)
		}
	}
}

// TestCode shows that a command that failed is told from one that was typed wrongly.
func TestCode(t *testing.T) {
	root := program(func() error { return errors.New("the service does not answer") })
	root.SetArgs([]string{"host", "takedown", "x"})
	if err := root.Execute(); Code(err) != 1 {
		t.Errorf("code %d (%v), want 1", Code(err), err)
	}
}
