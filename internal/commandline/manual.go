package commandline

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

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
