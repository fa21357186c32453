package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sheaf/robotd"
	"sheaf/robotd/config"
	"sheaf/robotd/update"
)

// Times of the supervisor. They are longer than a machine's usual delays, and short compared with
// the hours in which hosts may be visited.
const (
	pause = 10 * time.Second // wait before a robot that ended by itself is started again
	// stop is the time that a robot has to end. It is shorter than TimeoutStopSec of the robot's
	// unit. A robot seals its collected pages before it ends. If that takes longer, the next start
	// completes the batch.
	stop = 60 * time.Second
)

func superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "supervise",
		Short: "Run the robot, start it again when it ends, and let it replace its own program",
		Long: "supervise runs the robot as its child. The robot takes new releases from the service.\n" +
			"Each is on trial: if it does not report to the manager, the old one is put back.",
		RunE: with(func(cmd *cobra.Command, cfg config.Config, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			args := []string{"run"}
			for _, flag := range []string{"config", "data"} {
				if f := cmd.Flags().Lookup(flag); f.Changed {
					path, err := filepath.Abs(f.Value.String())
					if err != nil {
						return err
					}
					args = append(args, "--"+flag, path)
				}
			}
			dir, err := filepath.Abs(robotd.UpdateDir(cfg.DataDir))
			if err != nil {
				return err
			}
			v := update.Supervisor{
				Dir: dir, Installed: self, Args: args,
				Trial: cfg.Update.Trial, Pause: pause, Stop: stop, Log: logger(cmd, cfg),
			}
			return v.Run(cmd.Context())
		}),
	}
}

func verifyReleaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify-release TEXT SIGNATURE",
		Short: "Verify a release with the key that this robot trusts, and show its counter",
		RunE: with(func(cmd *cobra.Command, cfg config.Config, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			signature, err := os.ReadFile(args[1])
			if err != nil {
				return err
			}
			r, err := robotd.VerifyRelease(cfg, text, signature)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d %s\n", r.Counter, r.Version)
			return err
		}),
	}
}
