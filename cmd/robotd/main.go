// Command robotd is the robot: it collects pages for a service and uploads them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata"

	"github.com/spf13/cobra"

	"sheaf/internal/commandline"
	"sheaf/internal/display"
	"sheaf/robotd"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), signals()...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := command().ExecuteContext(ctx)
	if err == nil || ctx.Err() != nil { // after a signal, an error means only that the program was stopped
		return
	}
	fmt.Fprintln(os.Stderr, "robotd:", err)
	code := commandline.Code(err)
	if e, ok := errors.AsType[*exitError](err); ok {
		code = e.code
	}
	os.Exit(code)
}

// signals returns the signals that make the robot seal its collected pages and stop. A hang-up is
// one of them, unless nohup has it ignored: settings are read only at the start, so a restart is
// the way to change them.
func signals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// command returns robotd's root command with all subcommands.
func command() *cobra.Command {
	run := runCommand()
	root := &cobra.Command{
		Use:   "robotd",
		Short: "Collect the pages of assigned hosts and upload them",
		Long: "robotd collects the pages of the hosts that a service assigns to it. Without a\n" +
			"command it runs. Settings are read from the file given by --config, from ROBOTD_…\n" +
			"in the environment, and from flags. Each has priority over the one before.",
		RunE: run.RunE,
	}
	root.PersistentFlags().String("config", "", "file with settings (YAML)")
	root.PersistentFlags().String("data", "", "the robot's folder")
	root.Flags().AddFlagSet(run.Flags())
	root.AddCommand(run, joinCommand(), leaveCommand(), statusCommand(),
		pausing("pause", "Visit no hosts until \"robotd resume\", over restarts too; batches are still uploaded", true,
			"the robot pauses: pages in hand are finished, batches are uploaded", "the robot will be paused when it runs"),
		pausing("resume", "End a pause", false, "the robot goes on", "the robot will not be paused when it runs"),
		tapCommand(), checkCommand(),
		superviseCommand(), verifyReleaseCommand(), handCommand())
	return commandline.Prepare(root, robotd.Version)
}

// settings loads the settings. Flags that were given override them.
func settings(cmd *cobra.Command) (config.Config, error) {
	file, err := cmd.Flags().GetString("config")
	if err != nil {
		return config.Config{}, err
	}
	overrides := map[string]any{}
	for _, key := range []string{"data", "contact", "window", "once", "for"} {
		if f := cmd.Flags().Lookup(key); f != nil && f.Changed {
			overrides[key] = f.Value.String()
		}
	}
	return robotd.LoadConfig(file, overrides)
}

// with returns a command's function that loads the settings and calls run.
func with(run func(cmd *cobra.Command, cfg config.Config, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cfg, err := settings(cmd)
		if err != nil {
			return err
		}
		return run(cmd, cfg, args)
	}
}

func logger(cmd *cobra.Command, cfg config.Config) *slog.Logger {
	return commandline.Log(cfg.Log).Logger(cmd.ErrOrStderr())
}

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the robot until it is told to stop",
		RunE: with(func(cmd *cobra.Command, cfg config.Config, _ []string) error {
			if dry, err := cmd.Flags().GetBool("dry-run"); err != nil || dry {
				return errors.Join(err, dryRun(cmd, cfg))
			}
			defer robotd.HoldMemory(cfg.Memory.Limit)()
			return robotd.Run(cmd.Context(), cfg, logger(cmd, cfg))
		}),
	}
	cmd.Flags().Bool("once", false, "end after one cycle, when its batches are published")
	cmd.Flags().Duration("for", 0, "with --once: end the cycle after that time, such as 2h; what is left waits for the next run")
	cmd.Flags().Bool("dry-run", false, "fetch the list and show what would be visited, and when; visit nothing")
	cmd.Flags().Bool("json", false, "with --dry-run: as JSON")
	cmd.Flags().String("hosts", "20", `with --dry-run: how many hosts to show, or "all"`)
	cmd.Flags().String("contact", "", "URL or mail address at which webmasters reach you")
	cmd.Flags().String("window", "", `when hosts may be visited, such as "22:00-06:00 Asia/Tokyo" or "always"`)
	return cmd
}

func joinCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "join URL[,URL…] TOKEN",
		Short: "Join a service with a one-time token",
		RunE: with(func(cmd *cobra.Command, cfg config.Config, args []string) error {
			// Check the settings before the token is used.
			if cmd.Flags().Lookup("config").Changed || cfg.Contact != "" {
				if err := cfg.Check(); err != nil {
					return err
				}
			}
			name, err := robotd.Join(cmd.Context(), args[0], args[1], cfg.DataDir)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "joined %s as %s; credentials and key are in %s\n", args[0], name, cfg.DataDir)
			return err
		}),
	}
}

func leaveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "leave",
		Short: "Upload what is left and leave the service; the robot must be stopped",
		RunE: with(func(cmd *cobra.Command, cfg config.Config, _ []string) error {
			return robotd.Leave(cmd.Context(), cfg, logger(cmd, cfg))
		}),
	}
}

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

// dryRun prints what the robot would do, without doing it.
func dryRun(cmd *cobra.Command, cfg config.Config) error {
	text, err := cmd.Flags().GetString("hosts")
	if err != nil {
		return err
	}
	hosts, err := howMany(text)
	if err != nil {
		return err
	}
	asJSON, err := cmd.Flags().GetBool("json")
	if err != nil {
		return err
	}
	plan, err := robotd.DryRun(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(plan)
	}
	_, err = io.WriteString(out, screenOf(out).Plan(plan, hosts))
	return err
}

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
