// Package commandline makes Sheaf's programs report errors and write their logs alike. For an
// unknown command or flag, or a missing argument, the program suggests a correction and ends with
// code 2. Any other error ends it with code 1.
package commandline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// UsageError is an error in the command line, not in the work that the command does.
type UsageError struct{ error }

// Unwrap returns the wrapped error, for errors.Is.
func (e UsageError) Unwrap() error { return e.error }

// Code returns the exit code for an error of a command: 0 for nil, 2 for a UsageError, and else 1.
func Code(err error) int {
	if err == nil {
		return 0
	}
	if _, wrong := errors.AsType[UsageError](err); wrong {
		return 2
	}
	return 1
}

// Prepare makes root and all commands below it refuse unknown commands, arguments and flags. A
// command without a check of its own takes the arguments that its usage line names. Prepare also
// adds the command "man". Call it once, after the last command has been added.
func Prepare(root *cobra.Command, version string) *cobra.Command {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = version
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return UsageError{fmt.Errorf("%w%s", err, seeHelp(cmd))}
	})
	root.AddCommand(manualCommand())
	prepare(root)
	return root
}

func prepare(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		cmd.Args = cobra.ArbitraryArgs // checked below
	}
	check := cmd.Args
	if check == nil {
		check = arguments(cmd.Use)
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.HasSubCommands() && len(args) > 0 {
			return unknown(cmd, args[0])
		}
		if err := check(cmd, args); err != nil {
			if len(args) > 0 && takesNone(check, cmd) {
				err = fmt.Errorf("it takes no argument, but was given %q", args)
			}
			return UsageError{fmt.Errorf("%w; usage: %s%s", err, cmd.UseLine(), seeHelp(cmd))}
		}
		return nil
	}
	for _, c := range cmd.Commands() {
		prepare(c)
	}
}

// arguments returns the check that a command has as many arguments as its usage line names. A word
// in brackets may be left out, and a word that ends with "…" or "..." may be repeated. Flags are
// named after the arguments.
func arguments(use string) cobra.PositionalArgs {
	least, most := 0, 0
	for _, word := range strings.Fields(use)[1:] {
		name := strings.TrimPrefix(word, "[")
		if strings.HasPrefix(name, "-") {
			break
		}
		most++
		if name == word {
			least++
		}
		if strings.HasSuffix(word, "…") || strings.HasSuffix(word, "...") {
			return cobra.MinimumNArgs(least)
		}
	}
	switch least {
	case most:
		return cobra.ExactArgs(most)
	case 0:
		return cobra.MaximumNArgs(most)
	}
	return cobra.RangeArgs(least, most)
}

// unknown is the error for a command that does not exist.
func unknown(cmd *cobra.Command, name string) error {
	text := fmt.Sprintf("there is no command %q", strings.TrimPrefix(cmd.CommandPath()+" "+name, cmd.Root().Name()+" "))
	if like := cmd.SuggestionsFor(name); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	} else {
		text += seeHelp(cmd)
	}
	return UsageError{errors.New(text)}
}

func seeHelp(cmd *cobra.Command) string { return fmt.Sprintf("; see %s --help", cmd.CommandPath()) }

// takesNone reports whether a command takes no arguments at all.
func takesNone(check cobra.PositionalArgs, cmd *cobra.Command) bool {
	return check(cmd, nil) == nil && check(cmd, []string{""}) != nil
}

// manualCommand returns the hidden command that writes a manual page for each command of a program.
// The build of the program's packages calls it.
func manualCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write a manual page for each command",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			// SOURCE_DATE_EPOCH sets the pages' date.
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: root.Name() + " " + root.Version}, args[0])
		},
	}
}
