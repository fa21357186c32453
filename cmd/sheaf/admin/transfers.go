package admin

import (
	"io"

	"github.com/spf13/cobra"

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
with --by, of those in each hour, day or month.`,
		Example: `  sheaf transfers --by day --since 2026-11-01
  sheaf transfers --by month --each --csv > rates.csv`,
		Args: cobra.NoArgs,
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
	cmd.Flags().StringVar(&q.Who, "who", "", "only this robot or account")
	cmd.Flags().StringVar(&q.Direction, "direction", "", `only "upload" or "download"`)
	cmd.Flags().StringVar(&q.By, "by", "", `sums by "hour", "day" or "month" (default "day" with one of the next four)`)
	cmd.Flags().StringVar(&q.Since, "since", "", "the first period: a day such as 2026-11-21, or a time")
	cmd.Flags().StringVar(&q.Until, "until", "", "only what began before this day or time")
	cmd.Flags().BoolVar(&q.Each, "each", false, "one line for each robot and account")
	cmd.Flags().BoolVar(&csv, "csv", false, "print CSV")
	cmd.Flags().BoolVar(&running, "running", false, "only the transfers that run now in the process at --url")
	return cmd
}
