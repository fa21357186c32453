package main

import (
	"os"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/admin"
	"sheaf/cmd/sheaf/service"
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
			log := cfg.Observe.Log.New(os.Stderr)
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
