package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"sheaf/robotd"
	"sheaf/robotd/config"
)

// dryRun prints what the robot would do, without doing it.
func dryRun(cmd *cobra.Command, cfg config.Config) error {
	text, err := cmd.Flags().GetString("hosts")
	if err != nil {
		return err
	}
	hosts, err := howMany(text)
	if err != nil {
		return err
	}
	asJSON, err := cmd.Flags().GetBool("json")
	if err != nil {
		return err
	}
	plan, err := robotd.DryRun(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(plan)
	}
	_, err = io.WriteString(out, screenOf(out).Plan(plan, hosts))
	return err
}
