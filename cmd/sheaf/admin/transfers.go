package admin

import (
	"io"

	"github.com/spf13/cobra"

	"sheaf/internal/commandline"
	"sheaf/internal/transfers"
	"sheaf/serve/client"
	"sheaf/ui/board"
)

func TransfersCommand() *cobra.Command {
	var q transfers.PeriodQuery
	var running, csv bool
	cmd := OperatorFlags(&cobra.Command{
		Use:   "transfers",
		Short: "Show bytes, seconds and bytes/s of every robot and account",
		Long: `Show bytes, seconds and bytes/s of every robot and account: the sums of all recorded transfers or,
with --by, --since, --until or --each, of those in each hour, day or month (default day).`,
		Example: `  sheaf transfers --by day --since 2026-11-01
  sheaf transfers --by month --each --csv > rates.csv`,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if csv || q.Each || q.Since != "" || q.Until != "" || q.By != "" {
				q.Each = q.Each || q.Who != ""
				return ask(cmd, c, board.ListPeriods, q, func(w io.Writer, doc transfers.PeriodDocument) {
					write := transfers.WritePeriods
					if csv {
						write = transfers.WritePeriodsCSV
					}
					_ = write(w, doc.Periods) // cannot fail: w is in memory
				})
			}
			return ask(cmd, c, board.ListTransfers, transfers.Query{Who: q.Who, Direction: q.Direction}, func(w io.Writer, doc transfers.Document) {
				if running {
					_ = transfers.WriteRunning(w, doc.Running) // cannot fail: w is in memory
					return
				}
				_ = transfers.WriteTable(w, doc.Totals) // cannot fail: w is in memory
			})
		}),
	})
	commandline.Flags(cmd, &q, "who direction by= since until each")
	cmd.Flags().BoolVar(&csv, "csv", false, "print CSV")
	cmd.Flags().BoolVar(&running, "running", false, "only the transfers that run now in the process at --url")
	return cmd
}
