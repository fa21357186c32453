package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/terminal"
)

// fsckCommand checks what is published against what is stored. It only reads,
// and may run beside the service.
func fsckCommand() *cobra.Command {
	var config, data string
	var set []string
	var deep bool
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Check that all that is published is stored, whole",
		Long: "Check that the catalog is whole and that every published segment is in the store.\n" +
			"With --deep, read and verify every segment. Nothing is changed; the service may be running.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(config, data, set)
			if err != nil {
				return err
			}
			report, err := service.Fsck(cmd.Context(), cfg, deep)
			if err != nil {
				return err
			}
			if err := show(cmd, report, func(w io.Writer) error { return printReport(w, report) }); err != nil {
				return err
			}
			if !report.OK() {
				return fmt.Errorf("fsck: %d problems found", report.Found)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "the service's YAML file of settings, where its store is not in the data directory")
	cmd.Flags().StringVar(&data, "data", "", "the service's data directory (setting data)")
	cmd.Flags().StringArrayVar(&set, "set", nil, "one setting, such as --set store.kind=s3")
	cmd.Flags().BoolVar(&deep, "deep", false, "read and verify every segment")
	cmd.Flags().Bool("json", false, "print JSON")
	return cmd
}

func printReport(w io.Writer, r *catalog.Report) error {
	for _, p := range r.Problems {
		if _, err := fmt.Fprintf(w, "%s: %s\n", terminal.Text(p.Where), terminal.Text(p.Detail)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, `versions %d, runs %d, editions %d, batches %d
segments %d of %d bytes, %d of them read and verified
objects  %d, of which %d (%d bytes) are not published (batches under way, failed attempts)
         %d (%d bytes) the URL-level index does not need any more, or not yet
problems %d
`, r.Versions, r.Runs, r.Editions, r.Batches, r.Segments, r.Bytes, r.Verified, r.Objects, r.Orphans, r.OrphanBytes, r.LeftOver, r.LeftOverBytes, r.Found)
	return err
}
