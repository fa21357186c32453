package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"sheaf/internal/api"
	"sheaf/serve/client"
)

// indexCommand is about the URL-level index, which the service keeps by itself.
func indexCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "index", Short: "The index of all records by URL, which the service keeps by itself"}
	cmd.AddCommand(operatorFlags(&cobra.Command{
		Use:   "rebuild",
		Short: "Make the index anew from the segments, such as where fsck found it wrong",
		Long: "Make the URL-level index anew from the segments, in the background. What is asked meanwhile is read out of the\n" +
			"segments, which is slower. An index that the service itself finds damaged it makes anew by itself.",
		Args: cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			if err := c.Do(cmd.Context(), http.MethodPost, api.PathAdminRebuild, nil, nil); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "the index is being made anew")
			return err
		}),
	}))
	return cmd
}
