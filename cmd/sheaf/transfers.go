package main

import (
	"io"
	"net/http"
	"net/url"

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
		Long: `Show bytes, seconds and bytes/s of every robot and account: the sums of all transfers that are
kept or, with --by, those of each hour, day or month.`,
		Example: `  sheaf transfers --by day --since 2026-11-01
  sheaf transfers --by month --each --csv > rates.csv`,
		Args: cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			query := url.Values{}
			if who != "" {
				query.Set("who", who)
			}
			if direction != "" {
				query.Set("direction", direction)
			}
			if csv || each || since != "" || until != "" || by != "" {
				query.Set("by", by)
				query.Set("since", since)
				query.Set("until", until)
				if each || who != "" {
					query.Set("each", "1")
				}
				var doc transfers.PeriodDocument
				if err := c.Do(cmd.Context(), http.MethodGet, api.PathPeriods+"?"+query.Encode(), nil, &doc); err != nil {
					return err
				}
				write := transfers.WritePeriods
				if csv {
					write = transfers.WritePeriodsCSV
				}
				return show(cmd, doc, func(w io.Writer) error { return write(w, doc.Periods) })
			}
			var doc transfers.Document
			if err := c.Do(cmd.Context(), http.MethodGet, api.PathTransfers+"?"+query.Encode(), nil, &doc); err != nil {
				return err
			}
			return show(cmd, doc, func(w io.Writer) error {
				if running {
					return transfers.WriteRunning(w, doc.Running)
				}
				var totals []transfers.Total
				for _, line := range doc.Totals {
					totals = append(totals, line.Total())
				}
				return transfers.WriteTable(w, totals)
			})
		}),
	})
	cmd.Flags().StringVar(&who, "who", "", "only this robot or account")
	cmd.Flags().StringVar(&direction, "direction", "", `only "upload" or "download"`)
	cmd.Flags().StringVar(&by, "by", "", `sums by "hour", "day" or "month" (default "day" with one of the next four)`)
	cmd.Flags().StringVar(&since, "since", "", "the first period: a day such as 2026-11-21, or a time")
	cmd.Flags().StringVar(&until, "until", "", "only what began before this day or time")
	cmd.Flags().BoolVar(&each, "each", false, "robots and accounts apart")
	cmd.Flags().BoolVar(&csv, "csv", false, "print CSV")
	cmd.Flags().BoolVar(&running, "running", false, "show the transfers that are under way in the process asked")
	return cmd
}
