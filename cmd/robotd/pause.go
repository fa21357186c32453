package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sheaf/robotd/config"
	"sheaf/robotd/control"
)

// pausing returns a command that begins or ends the pause. The command prints the text in runs for
// a running robot, and the text in rests for a stopped one.
func pausing(use, short string, on bool, runs, rests string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		RunE: with(func(cmd *cobra.Command, cfg config.Config, _ []string) error {
			running, err := control.NewMonitor(cfg.DataDir).SetPaused(cmd.Context(), on)
			if err != nil {
				return err
			}
			text := rests
			if running {
				text = runs
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		}),
	}
}
