package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/terminal"
)

func fsckCommand() *cobra.Command {
	var settings settingsFlags
	var deep bool
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Check that everything that is published is stored, complete and undamaged",
		Long: `Check that the catalog is complete and that every published segment is in the store. With --deep, read
and verify every segment. Nothing is changed, and the service may be running.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings.load()
			if err != nil {
				return err
			}
			report, err := service.Fsck(cmd.Context(), cfg, deep)
			if err != nil {
				return err
			}
			if err := show(cmd, report, func(w io.Writer) { printReport(w, report) }); err != nil {
				return err
			}
			if !report.OK() {
				return fmt.Errorf("fsck: %d problems found", report.Found)
			}
			return nil
		},
	}
	settings.register(cmd)
	cmd.Flags().BoolVar(&deep, "deep", false, "read and verify every segment")
	cmd.Flags().Bool("json", false, "print JSON")
	return cmd
}

func printReport(w io.Writer, r *catalog.Report) {
	for _, p := range r.Problems {
		fmt.Fprintf(w, "%s: %s\n", terminal.Text(p.Where), terminal.Text(p.Detail))
	}
	fmt.Fprintf(w, `versions %d, runs %d, editions %d, batches %d
segments %d of %d bytes, %d of them read and verified
objects  %d, of which %d (%d bytes) are not published (unfinished batches, failed attempts)
         and %d (%d bytes) are of the URL index, which does not need them any more, or not yet
problems %d
`, r.Versions, r.Runs, r.Editions, r.Batches, r.Segments, r.Bytes, r.Verified, r.Objects, r.Orphans, r.OrphanBytes, r.LeftOver, r.LeftOverBytes, r.Found)
}
