package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/ingest/upkeep"
	"sheaf/internal/api"
	"sheaf/serve/client"
)

func hostTakedownCommand() *cobra.Command {
	return takedownCommand("takedown", "Take a host's archives down, what comes later too; or one edition's, or the pages below a URL",
		api.PathAdminTakedowns, "%s is taken down from version %d on\n")
}

func hostRestoreCommand() *cobra.Command {
	return takedownCommand("restore", "Lift a take-down; what was deleted meanwhile does not come back",
		api.PathAdminLift, "%s is there again from version %d on\n")
}

func takedownCommand(verb, short, path, done string) *cobra.Command {
	var t upkeep.TakedownRequest
	cmd := &cobra.Command{
		Use:   verb + " HOST --reason TEXT",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			t.Host = args[0]
			var at upkeep.TakedownResponse
			if err := c.Do(cmd.Context(), http.MethodPost, path, t, &at); err != nil {
				return err
			}
			return show(cmd, at, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, done, t.Host, at.Version)
				return err
			})
		}),
	}
	cmd.Flags().StringVar(&t.Edition, "edition", "", "only what this edition brought")
	cmd.Flags().StringVar(&t.URLPrefix, "url-prefix", "", "only the pages whose URL begins so")
	if path == api.PathAdminTakedowns {
		cmd.Flags().BoolVar(&t.Unknown, "unknown", false, "also where nothing of the host, or of it in the edition, was published")
	}
	cmd.Flags().StringVar(&t.Reason, "reason", "", "why, kept for ever")
	cmd.Flags().StringVar(&t.By, "by", os.Getenv("USER"), "who decides (USER)")
	return cmd
}

func hostTakedownsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "takedowns [HOST]",
		Short: "List what was taken down and lifted, when, by whom and why",
		Args:  cobra.MaximumNArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			query := url.Values{}
			if len(args) > 0 {
				query.Set("host", args[0])
			}
			var stones []catalog.Tombstone
			if err := c.Do(cmd.Context(), http.MethodGet, api.PathAdminTakedowns+"?"+query.Encode(), nil, &stones); err != nil {
				return err
			}
			return show(cmd, stones, func(w io.Writer) error {
				tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(tw, "host\tact\tedition\turl\tat\tby\treason")
				for _, t := range stones {
					act := map[catalog.Act]string{catalog.TakeDown: "take down", catalog.Lift: "lift", catalog.Erase: "delete"}[t.Act]
					fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.Host, act, t.Edition, t.URLPrefix, t.At.Format(time.RFC3339), t.By, t.Reason)
				}
				return tw.Flush()
			})
		}),
	}
}
