package main

import (
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"sheaf/internal/api"
	"sheaf/internal/transfers"
	"sheaf/serve/client"
)

func transfersCommand() *cobra.Command {
	var who, direction string
	var running, csv, each bool
	var by, since, until string
	cmd := operatorFlags(&cobra.Command{
		Use:   "transfers",
		Short: "Show bytes, seconds and bytes/s of every robot and account",
		Long: `Show bytes, seconds and bytes/s of every robot and account: the sums of all recorded transfers or,
with --by, of those in each hour, day or month.`,
		Example: `  sheaf transfers --by day --since 2026-11-01
  sheaf transfers --by month --each --csv > rates.csv`,
		Args: cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if csv || each || since != "" || until != "" || by != "" {
				apart := ""
				if each || who != "" {
					apart = "1"
				}
				path := withQuery(api.PathPeriods, "who", who, "direction", direction, "by", by, "since", since, "until", until, "each", apart)
				return ask(cmd, c, http.MethodGet, path, nil, func(w io.Writer, doc transfers.PeriodDocument) {
					write := transfers.WritePeriods
					if csv {
						write = transfers.WritePeriodsCSV
					}
					_ = write(w, doc.Periods) // w is in memory
				})
			}
			path := withQuery(api.PathTransfers, "who", who, "direction", direction)
			return ask(cmd, c, http.MethodGet, path, nil, func(w io.Writer, doc transfers.Document) {
				if running {
					_ = transfers.WriteRunning(w, doc.Running) // w is in memory
					return
				}
				_ = transfers.WriteTable(w, doc.Totals) // w is in memory
			})
		}),
	})
	cmd.Flags().StringVar(&who, "who", "", "only this robot or account")
	cmd.Flags().StringVar(&direction, "direction", "", `only "upload" or "download"`)
	cmd.Flags().StringVar(&by, "by", "", `sums by "hour", "day" or "month" (default "day" with one of the next four)`)
	cmd.Flags().StringVar(&since, "since", "", "the first period: a day such as 2026-11-21, or a time")
	cmd.Flags().StringVar(&until, "until", "", "only what began before this day or time")
	cmd.Flags().BoolVar(&each, "each", false, "one line for each robot and account")
	cmd.Flags().BoolVar(&csv, "csv", false, "print CSV")
	cmd.Flags().BoolVar(&running, "running", false, "only the transfers that run now in the process at --url")
	return cmd
}
