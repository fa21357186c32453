package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/admin"
	"sheaf/cmd/sheaf/demo"
)

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
