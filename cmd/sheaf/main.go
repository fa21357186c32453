// Command sheaf is the service and its operators' commands: `sheaf serve` runs the manager, the
// ingest and the serve rooms in one process, `sheaf demo` shows all of it on loopback, and the
// other commands look after a running service or its files.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // windows name zones, and a machine may lack zone files

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/admin"
	"sheaf/cmd/sheaf/demo"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/commandline"
	"sheaf/internal/display"
	"sheaf/internal/loop"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sheaf:", display.HarmlessLines(err.Error()))
		os.Exit(commandline.Code(err))
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sheaf",
		Short: "A distribution and archive service for collected web pages",
	}
	root.AddCommand(demoCommand(), setupCommand(), serveCommand(), admin.RobotCommand(), admin.ReleaseCommand(), admin.HostCommand(), admin.AccountCommand(), admin.AccessCommand(), admin.CollectionCommand(), admin.OperatorCommand(), admin.AuditCommand(),
		admin.BatchCommand(), admin.TransfersCommand(), archiveCommand(), fsckCommand(), storeCommand(), leaseCommand(), admin.KeyCommand(), admin.IndexCommand(), admin.BalanceCommand(), admin.GcCommand(), backupCommand(), restoreCommand(),
		mirrorCommand(), admin.WatchCommand(), admin.RemovalCommand(), doctorCommand(), admin.WrongCommand())
	return commandline.Prepare(root, service.Version())
}

// Bounds of the garbage in the heap of a service that is busy: these bytes, or as much as there is
// in use, if that is more. Without them, a service that has little in use would spend a fifth of
// its processor time on collections.
const (
	garbageBytes = 24 << 20
	leastGarbage = 100 // percent of what is in use
	mostGarbage  = 400
)

func serveCommand() *cobra.Command {
	var settings admin.SettingsFlags
	var roles string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service: manager, ingest and downloads, all in one process or some of them",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if roles != "" {
				settings.Set = append(settings.Set, "roles="+roles)
			}
			cfg, err := settings.Load()
			if err != nil {
				return err
			}
			defer loop.GarbageOf(garbageBytes, leastGarbage, mostGarbage).WhileBusy().Hold()()
			log := cfg.Observe.Log.Logger(os.Stderr)
			s, err := service.New(cmd.Context(), cfg, log)
			if cmd.Context().Err() != nil {
				return nil // it was stopped while it waited for the database
			}
			if err != nil {
				return err
			}
			at := s.Addresses()
			log.Info("serving", "roles", cfg.Roles, "http", at.HTTP, "ftp", at.Download, "drop", at.Drop, "metrics", at.Metrics, "path", cfg.Data)
			return s.Run(cmd.Context())
		},
	}
	settings.Register(cmd)
	cmd.Flags().StringVar(&roles, "roles", "", "what this process does of manager,ingest,serve, if other processes do the rest (setting roles)")
	return cmd
}

func demoCommand() *cobra.Command {
	var opt demo.Options
	var asJSON, verbose bool
	var set []string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole service on loopback: real pages, three robots, two days, archives to fetch",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if opt.Settings, err = admin.SplitSettings(set); err != nil {
				return err
			}
			if verbose {
				opt.Log = os.Stderr
			}
			tell := demo.Text(cmd.OutOrStdout())
			if asJSON {
				tell = demo.JSON(cmd.OutOrStdout())
			}
			if !opt.Once && !asJSON {
				defer io.WriteString(cmd.OutOrStdout(), "stopped\n")
				fmt.Fprintln(cmd.OutOrStdout(), "Ctrl-C ends the demo.")
			}
			return demo.Run(cmd.Context(), opt, tell)
		},
	}
	cmd.Flags().BoolVar(&opt.Once, "once", false, "end after the second day; the exit status is 0 if it was published")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print lines of JSON")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print the service's and the robots' logs too")
	cmd.Flags().StringVar(&opt.Data, "data", "", "keep everything in this directory (default: a temporary one)")
	cmd.Flags().StringArrayVar(&set, "set", nil, "one setting of the service, such as --set store.kind=s3")
	return cmd
}
