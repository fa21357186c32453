package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"sheaf/internal/display"
	"sheaf/robotd"
	"sheaf/robotd/config"
)

func checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Try what the robot needs: settings, folder, manager, clock, addresses",
		Long:  "check tells what would keep the robot from working, and exits with 1 if there is such a thing.\nIt visits no host, and may be used while the robot runs.",
	}
	asJSON := cmd.Flags().Bool("json", false, "one line of JSON for each finding")
	cmd.RunE = with(func(cmd *cobra.Command, cfg config.Config, _ []string) error {
		out := cmd.OutOrStdout()
		ok := robotd.Check(cmd.Context(), cfg, func(f robotd.Finding) {
			if *asJSON {
				_ = json.NewEncoder(out).Encode(f) // the exit code tells of a failure too
				return
			}
			mark := map[bool]string{true: "ok   ", false: "WRONG"}[f.OK]
			fmt.Fprintf(out, "%s  %-9s %s\n", mark, f.What, display.Harmless(f.Text))
		})
		if !ok {
			return &exitError{1, "the robot would not work as it should"}
		}
		return nil
	})
	return cmd
}
