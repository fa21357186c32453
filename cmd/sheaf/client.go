package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"sheaf/cmd/sheaf/service"
	"sheaf/internal/terminal"
	"sheaf/serve/client"
)

// operatorFlags adds the flags by which every operators' command finds its service.
func operatorFlags(cmd *cobra.Command) *cobra.Command {
	cmd.PersistentFlags().String("url", envOr("SHEAF_URL", "http://127.0.0.1:8080"), "the service's address (SHEAF_URL)")
	cmd.PersistentFlags().String("data", envOr("SHEAF_DATA", "sheaf-data"), "the service's data directory, which holds the operators' token (SHEAF_DATA)")
	cmd.PersistentFlags().String("config", "", "the service's settings file, which names its address and data directory; the flags above come before it")
	cmd.PersistentFlags().String("token", os.Getenv("SHEAF_TOKEN"), "the operators' token, where the data directory is elsewhere (SHEAF_TOKEN)")
	cmd.PersistentFlags().Bool("json", false, "print JSON")
	return cmd
}

func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// newClient returns a client of the service that the flags name.
func newClient(cmd *cobra.Command) (*client.Client, error) {
	url, data, err := whichService(cmd)
	if err != nil {
		return nil, err
	}
	token, _ := cmd.Flags().GetString("token")
	if token == "" {
		if token, err = service.ReadToken(data); err != nil {
			return nil, fmt.Errorf("no operators' token: %w; name the service's --data directory or its --config file, or give --token", err)
		}
	}
	return client.Operator(url, token)
}

// whichService returns the service's address and its data directory: those of the flags, of the
// settings file that --config names, of the environment, or the defaults, in this order.
func whichService(cmd *cobra.Command) (url, data string, err error) {
	url, _ = cmd.Flags().GetString("url")
	data, _ = cmd.Flags().GetString("data")
	file, _ := cmd.Flags().GetString("config")
	if file == "" {
		return url, data, nil
	}
	cfg, err := service.Load(file, nil)
	if err != nil {
		return "", "", err
	}
	if !cmd.Flags().Changed("url") {
		url = cfg.HTTP.URL()
	}
	if !cmd.Flags().Changed("data") {
		data = cfg.Data
	}
	return url, data, nil
}

// asOperator makes a command's function of one that speaks to the service.
func asOperator(run func(cmd *cobra.Command, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := newClient(cmd)
		if err != nil {
			return err
		}
		return run(cmd, c, args)
	}
}

// show writes v as JSON where --json asks for it, and else as text does. What others have named
// cannot command the terminal.
func show(cmd *cobra.Command, v any, text func(w io.Writer) error) error {
	if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	return text(terminal.NewWriter(cmd.OutOrStdout()))
}
