// Command sheaf is the service and its operators' commands: `sheaf serve` runs the manager, the
// ingest and the serve rooms in one process, `sheaf demo` shows all of it on loopback, and the
// other commands look after a running service or its files.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // windows name zones, and a machine may lack zone files

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/admin"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/commandline"
	"sheaf/internal/display"
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
