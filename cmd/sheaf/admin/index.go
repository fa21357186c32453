package admin

import (
	"fmt"

	"github.com/spf13/cobra"

	"sheaf/archive/upkeep"
	"sheaf/internal/route"
	"sheaf/serve/client"
)

func IndexCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "index", Short: "Rebuild the index of records by URL"})
	cmd.AddCommand(&cobra.Command{
		Use:   "rebuild",
		Short: "Build the index of records by URL again from the segments",
		Long: `Build the index of records by URL again from the segments, in the background, such as when fsck has
found an error in it. Meanwhile queries read the segments, which is slower. The service keeps the index
up to date by itself, and rebuilds an index that it finds damaged.`,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			if err := tell(cmd, c, upkeep.Rebuild, route.None{}); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "the index is being built again")
			return err
		}),
	})
	return cmd
}
