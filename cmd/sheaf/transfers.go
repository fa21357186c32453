package main

import (
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/operator"
	"sheaf/internal/transfers"
)

func transfersCommand() *cobra.Command {
	var who, direction string
	var running bool
	cmd := operatorFlags(&cobra.Command{
		Use:   "transfers",
		Short: "Show bytes, seconds and bytes/s of every robot and account",
		Args:  cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *operator.Client, args []string) error {
			query := url.Values{}
			if who != "" {
				query.Set("who", who)
			}
			if direction != "" {
				query.Set("direction", direction)
			}
			var doc transfers.Document
			if err := c.Do(cmd.Context(), http.MethodGet, transfers.Path+"?"+query.Encode(), nil, &doc); err != nil {
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
	cmd.Flags().BoolVar(&running, "running", false, "show the transfers that are under way in the process asked")
	return cmd
}
