package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sheaf/robotd/config"
	"sheaf/robotd/control"
)

func pauseCommand() *cobra.Command {
	return pausing("pause", "Visit no hosts until \"robotd resume\", over restarts too; batches are still uploaded", true,
		"the robot pauses: pages in hand are finished, batches are uploaded", "the robot will be paused when it runs")
}

func resumeCommand() *cobra.Command {
	return pausing("resume", "End a pause", false, "the robot goes on", "the robot will not be paused when it runs")
}

// pausing returns a command that begins or ends the pause. Its messages are runs for a running
// robot and rests for a stopped one.
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
