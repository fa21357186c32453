package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/service"
)

func serveCommand() *cobra.Command {
	var config string
	var set []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service: manager, ingest and downloads in one process, or some of them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			data, _ := cmd.Flags().GetString("data")                     // declared below
			if roles, _ := cmd.Flags().GetString("roles"); roles != "" { // declared below
				set = append(set, "roles="+roles)
			}
			cfg, err := load(config, data, set)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			s, err := service.New(cmd.Context(), cfg, log)
			if cmd.Context().Err() != nil {
				return nil // stopped while it waited for the database
			}
			if err != nil {
				return err
			}
			at := s.Addresses()
			log.Info("serving", "roles", cfg.Roles, "http", at.HTTP, "ftp", at.Download, "drop", at.Drop, "data", cfg.Data)
			return s.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "YAML file of settings; see deploy/sheaf.yaml")
	cmd.Flags().String("data", "", "the data directory (setting data)")
	cmd.Flags().String("roles", "", "what this process does of manager,ingest,serve, where others do the rest (setting roles)")
	cmd.Flags().StringArrayVar(&set, "set", nil, "one setting, such as --set publish.window=always")
	return cmd
}

// load reads the service's settings; data and set are flags that come before the file.
func load(config, data string, set []string) (service.Config, error) {
	overrides, err := settings(set)
	if err != nil {
		return service.Config{}, err
	}
	if data != "" {
		overrides["data"] = data
	}
	return service.Load(config, overrides)
}

// settings splits KEY=VALUE flags.
func settings(set []string) (map[string]any, error) {
	m := map[string]any{}
	for _, s := range set {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("--set %q: want KEY=VALUE, such as publish.window=always", s)
		}
		m[key] = value
	}
	return m, nil
}
