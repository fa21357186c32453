package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/cmd/sheaf/admin"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/display"
)

func fsckCommand() *cobra.Command {
	settings := admin.SettingsFlags{Packaged: true}
	var flags fsckFlags
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Check that everything that is published is stored, complete and undamaged, and repair it",
		Long: `Check that the catalog is complete and that every published segment is in the store. With --deep, read
and verify every segment. Nothing is changed, and the service may be running. With --at, check the store at
an address instead of that of the settings, such as a copy.

With --repair, replace what is damaged or missing by the objects of a copy that sheaf store copy has made.
Nothing is changed before a deep check of the store as it would be then has shown which objects of the copy
are right. So everything is read at least twice. An object is not there for the moment in which it is
replaced. What is damaged in the copy, too, is listed and left as it is.

An address is a directory or http(s)://HOST[:PORT]/BUCKET[/PREFIX], with the credentials of the AWS
environment or files.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.repair != "" {
				cfg, err := settings.Load()
				if err != nil {
					return err
				}
				return repair(cmd, cfg, flags.repair)
			}
			return flags.check(cmd, settings)
		},
	}
	settings.Register(cmd)
	cmd.Flags().BoolVar(&flags.deep, "deep", false, "read and verify every segment")
	cmd.Flags().StringVar(&flags.at, "at", "", "address of the store to check, instead of that of the settings")
	cmd.Flags().StringVar(&flags.repair, "repair", "", "address of a copy from which to repair the store of the settings; the check is deep")
	cmd.Flags().Bool("json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("at", "repair")
	return cmd
}

type fsckFlags struct {
	deep       bool
	at, repair string // addresses
}

func (f fsckFlags) check(cmd *cobra.Command, settings admin.SettingsFlags) (err error) {
	var cfg service.Config
	if f.at == "" {
		if cfg, err = settings.Load(); err != nil {
			return err
		}
	}
	report, err := service.Fsck(cmd.Context(), cfg, f.at, f.deep)
	if err == nil {
		err = admin.Show(cmd, report, func(w io.Writer) { printReport(w, report) })
	}
	if err == nil && !report.OK() {
		err = fmt.Errorf("fsck: %d problems found", report.Found)
	}
	return err
}

func repair(cmd *cobra.Command, cfg service.Config, from string) error {
	done, err := service.Repair(cmd.Context(), cfg, from)
	if err != nil {
		return err
	}
	err = admin.Show(cmd, done, func(w io.Writer) {
		for _, key := range done.Healed {
			fmt.Fprintf(w, "%s: repaired\n", display.Harmless(key))
		}
		printReport(w, done.Report)
		fmt.Fprintf(w, "repaired %d objects of %d bytes\n", len(done.Healed), done.Bytes)
	})
	if err == nil && !done.Report.OK() {
		err = fmt.Errorf("fsck: %d problems are left", done.Report.Found)
	}
	return err
}

func printReport(w io.Writer, r *catalog.Report) {
	for _, p := range r.Problems {
		fmt.Fprintf(w, "%s: %s\n", display.Harmless(p.Where), display.Harmless(p.Detail))
	}
	fmt.Fprintf(w, `versions %d, runs %d, editions %d, batches %d
segments %d of %d bytes, %d of them read and verified
objects  %d, of which %d (%d bytes) are not published (unfinished batches, failed attempts)
         and %d (%d bytes) are of the URL index, which does not need them any more, or not yet
problems %d
`, r.Versions, r.Runs, r.Editions, r.Batches, r.Segments, r.Bytes, r.Verified, r.Objects, r.Orphans, r.OrphanBytes, r.LeftOver, r.LeftOverBytes, r.Found)
}
