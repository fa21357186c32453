package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/durable"
	"sheaf/serve/client"
)

// backupTime is how long a backup may take.
const backupTime = 2 * time.Hour

// backupCommand keeps what cannot be had again from the catalog.
func backupCommand() *cobra.Command {
	return operatorFlags(&cobra.Command{
		Use:   "backup FILE",
		Short: "Write a backup of the control state: accounts, robots, assignments, keys",
		Long: "Write a backup of what the catalog in the store does not hold, as it is at one moment, while the service runs:\n" +
			"accounts, robots and their keys, hosts, assignments, costs, releases, the ledger of batches, receipt.key and operator.token.\n" +
			"The file holds secrets, and only its owner can read it. `sheaf restore` puts it into a new installation, on SQLite or\n" +
			"PostgreSQL. The archives are the store's, and have a backup of their own.",
		Args: cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			c.HTTP.Timeout = backupTime
			return fetchBackup(cmd, c, args[0])
		}),
	})
}

// fetchBackup writes a backup that was looked through from end to end under its name, or nothing.
func fetchBackup(cmd *cobra.Command, c *client.Client, path string) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s is there already", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*"+durable.TempSuffix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // is gone where it was renamed
	defer f.Close()
	if err := c.Get(cmd.Context(), api.PathAdminBackup, f); err != nil {
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
	if err := durable.Rename(f.Name(), path); err != nil {
		return err
	}
	return show(cmd, b, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s: %d bytes, %d entries, of %s; it holds secrets\n", path, size, len(b.SHA256), b.Made.Format(time.RFC3339))
		return err
	})
}

func restoreCommand() *cobra.Command {
	var config, data string
	var set []string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup into a new installation, before its service is first started",
		Long: "Put a backup into the database and the data directory that the settings name. Both must be new. Batches that were under way\n" +
			"are left out: their robots bring them again.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(config, data, set)
			if err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			r, err := service.Restore(cmd.Context(), cfg, f)
			if err != nil {
				return err
			}
			return show(cmd, r, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "restored %d tables and the keys of %s into %s; %d batches under way were left out\n",
					r.Tables, r.Made.Format(time.RFC3339), cfg.Data, r.Dropped)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "the service's YAML file of settings")
	cmd.Flags().StringVar(&data, "data", "", "the service's data directory (setting data)")
	cmd.Flags().StringArrayVar(&set, "set", nil, "one setting, such as --set database.url=postgres://…")
	cmd.Flags().Bool("json", false, "print JSON")
	return cmd
}
