package main

import (
	"os"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/admin"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/loop"
)

// Bounds of the garbage in the heap of a service that is busy: these bytes, or as much as there is
// in use, if that is more. Without them, a service that has little in use would spend a fifth of
// its processor time on collections.
const (
	garbageBytes = 24 << 20
	leastGarbage = 100 // percent of what is in use
	mostGarbage  = 400
)

func serveCommand() *cobra.Command {
	var settings admin.SettingsFlags
	var roles string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service: manager, ingest and downloads, all in one process or some of them",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if roles != "" {
				settings.Set = append(settings.Set, "roles="+roles)
			}
			cfg, err := settings.Load()
			if err != nil {
				return err
			}
			defer loop.GarbageOf(garbageBytes, leastGarbage, mostGarbage).WhileBusy().Hold()()
			log := cfg.Observe.Log.Logger(os.Stderr)
			s, err := service.New(cmd.Context(), cfg, log)
			if cmd.Context().Err() != nil {
				return nil // it was stopped while it waited for the database
			}
			if err != nil {
				return err
			}
			at := s.Addresses()
			log.Info("serving", "roles", cfg.Roles, "http", at.HTTP, "ftp", at.Download, "drop", at.Drop, "metrics", at.Metrics, "path", cfg.Data)
			return s.Run(cmd.Context())
		},
	}
	settings.Register(cmd)
	cmd.Flags().StringVar(&roles, "roles", "", "what this process does of manager,ingest,serve, if other processes do the rest (setting roles)")
	return cmd
}
