package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

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
