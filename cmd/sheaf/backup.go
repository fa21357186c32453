package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/admin"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/files"
	"sheaf/serve/client"
)

// backupTime is the most time that a backup may take.
const backupTime = 2 * time.Hour

func backupCommand() *cobra.Command {
	return admin.OperatorFlags(&cobra.Command{
		Use:   "backup FILE",
		Short: "Write a backup of the database and the keys",
		Long: `Write a backup of what is not in the object store, as it is at one moment, while the service runs:
accounts, robots and their keys, hosts, assignments, costs, releases, the states of batches, receipt.key
and operator.token. The file contains secrets, and only its owner can read it. "sheaf restore" puts it
into a new installation, on SQLite or PostgreSQL. Back up the archives, in the object store, apart.`,
		RunE: admin.AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			c.HTTP.Timeout = backupTime
			return fetchBackup(cmd, c, args[0])
		}),
	})
}

// fetchBackup writes a backup to a file. The file gets its name only after the whole backup was
// checked.
func fetchBackup(cmd *cobra.Command, c *client.Client, path string) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s is there already; choose another name", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+files.TempSuffix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails if the file was renamed
	defer f.Close()
	if err := c.Get(cmd.Context(), service.SaveState.Path, f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "sheaf-backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	b, err := service.UnpackBackup(io.NewSectionReader(f, 0, size), scratch)
	if err != nil {
		return err
	}
	if err := files.Rename(f.Name(), path); err != nil {
		return err
	}
	return admin.Show(cmd, b, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d bytes, %d entries, of %s; it contains secrets\n", path, size, len(b.SHA256), b.Made.Format(time.RFC3339))
	})
}

func restoreCommand() *cobra.Command {
	return admin.WithSettings(&cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into a new installation, before its first start",
		Long: `Restore a backup into the database and the data directory of the settings. Both must be new. Batches
that were not published yet are left out: their robots upload them again.`,
	}, func(cmd *cobra.Command, cfg service.Config, args []string) error {
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		r, err := service.Restore(cmd.Context(), cfg, f)
		if err != nil {
			return err
		}
		return admin.Show(cmd, r, func(w io.Writer) {
			fmt.Fprintf(w, "restored %d tables and the keys of %s into %s; %d batches under way were left out\n",
				r.Tables, r.Made.Format(time.RFC3339), cfg.Data, r.Dropped)
			fmt.Fprintln(w, service.NotInCatalog)
		})
	})
}
