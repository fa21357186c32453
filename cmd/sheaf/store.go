package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/archive/store/storecheck"
	"sheaf/cmd/sheaf/admin"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/display"
)

func storeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Check an object store, and keep a copy of it"}
	cmd.AddCommand(storeCheckCommand(), storeCopyCommand())
	return cmd
}

func storeCheckCommand() *cobra.Command {
	settings := admin.SettingsFlags{Packaged: true}
	cmd := &cobra.Command{
		Use:   "check [URL]",
		Short: "Tell whether an object store keeps the promises that Sheaf needs",
		Long: `Try within a minute whether an object store does what Sheaf needs: it refuses a second put of a name,
reads ranges exactly, lists in order, and so on. The exit status is not zero if it breaks a promise.
Whether the store keeps what it has acknowledged through a power failure cannot be seen from outside.

URL is http(s)://HOST[:PORT]/BUCKET[/PREFIX], with the credentials of the AWS environment or files, or a
directory. Without it, the store of the settings is checked. The check works below a prefix with a random
name (sheaf-check-…) and deletes all that it made, also when it is interrupted.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var cfg service.Config
			var at string
			var err error
			if len(args) == 1 && args[0] == "" {
				return errors.New("the URL is empty; without it, the store of the settings is checked")
			} else if len(args) == 1 {
				at = args[0]
			} else if cfg, err = settings.Load(); err != nil {
				return err
			}
			dir, bucket, err := cfg.StorePlace(at)
			if err != nil {
				return err
			}
			found, err := storecheck.Place(cmd.Context(), dir, bucket)
			return errors.Join(err, showPromises(cmd, found))
		},
	}
	settings.Register(cmd)
	cmd.Flags().Bool("json", false, "print JSON")
	return cmd
}

func storeCopyCommand() *cobra.Command {
	var prune bool
	cmd := admin.WithSettings(&cobra.Command{
		Use:   "copy ADDRESS",
		Short: "Bring a copy of the object store up to date",
		Long: `Copy what the copy at an address does not have yet of the object store of the settings. Objects never
change, so this costs what is new. The copy is always a whole archive, if an older one: sheaf fsck --at
checks it, and sheaf fsck --repair heals the store from it. The service may be running. Run it by a timer.

ADDRESS is a directory, which must exist, or http(s)://HOST[:PORT]/BUCKET[/PREFIX], with the credentials of
the AWS environment or files.

With --prune, what the store does not have any more is deleted from the copy, such as what was taken down.
The store is checked before, and nothing is deleted if anything is missing there.`,
	}, func(cmd *cobra.Command, cfg service.Config, args []string) error {
		done, err := service.CopyStore(cmd.Context(), cfg, args[0], prune)
		if err != nil {
			return err
		}
		return admin.Show(cmd, done, func(w io.Writer) {
			fmt.Fprintf(w, "copied %d objects of %d bytes, %d were there, %d deleted\n", done.Objects, done.Bytes, done.Present, done.Deleted)
		})
	})
	cmd.Flags().BoolVar(&prune, "prune", false, "delete objects from the copy that the store no longer has")
	return cmd
}

// showPromises prints the promises, and fails if any promise is broken.
func showPromises(cmd *cobra.Command, found []storecheck.Promise) error {
	broken := 0
	for _, p := range found {
		if !p.OK {
			broken++
		}
	}
	err := admin.Show(cmd, found, func(w io.Writer) {
		for _, p := range found {
			if p.OK {
				fmt.Fprintf(w, "ok  %s\n", p.Promise)
			} else {
				fmt.Fprintf(w, "no  %s\n    seen:   %s\n    breaks: %s\n", p.Promise, display.Harmless(p.Seen), p.Breaks)
			}
		}
	})
	if err == nil && broken > 0 {
		err = fmt.Errorf("the store breaks %d of %d promises", broken, len(found))
	}
	return err
}

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
