package main

import (
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/ingest/upkeep"
	"sheaf/internal/api"
	"sheaf/serve/client"
)

func collectionCommand() *cobra.Command {
	cmd := operatorFlags(&cobra.Command{Use: "collection", Short: "List, take down and restore what was imported as a collection"})
	cmd.AddCommand(&cobra.Command{
		Use:   "ls",
		Short: "List the collections, with what is shown of them",
		Args:  cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			return ask(cmd, c, http.MethodGet, api.PathAdminImported, nil, func(w io.Writer, list catalog.CollectionList) {
				table(w, "name\ttaken down\thosts\trecords\tbytes\tfirst\tlast\tlicence\tsource", list.Collections, func(c catalog.ImportedCollection) []any {
					return []any{c.Name, c.TakenDown, c.Hosts, c.Records, c.Bytes, moment(c.First), moment(c.Last), c.Licence, c.Source}
				})
			})
		}),
	},
		collectionTakedownCommand("takedown", "Take down all that is published of a collection", api.PathAdminTakedowns, "%s is taken down from version %d on: %d hosts had something of it\n"),
		collectionTakedownCommand("restore", "Lift that; what was deleted meanwhile does not come back", api.PathAdminLift, "%s is there again from version %d on, of %d hosts\n"))
	return cmd
}

// collectionTakedownCommand returns a command that sends a take-down of a collection to a path, and
// prints done, a format for the name, the catalog's version and the number of hosts.
func collectionTakedownCommand(verb, short, path, done string) *cobra.Command {
	var t catalog.Tombstone
	cmd := &cobra.Command{
		Use:   verb + " NAME --reason TEXT",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			t.Collection = args[0]
			return ask(cmd, c, http.MethodPost, path, upkeep.TakedownRequest{Tombstone: t}, func(w io.Writer, at upkeep.TakedownResponse) {
				fmt.Fprintf(w, done, t.Collection, at.Version, at.Hosts)
			})
		}),
	}
	cmd.Flags().StringVar(&t.Reason, "reason", "", "why (required); kept for ever")
	cmd.Flags().StringVar(&t.By, "by", os.Getenv("USER"), "who decides (USER)")
	return cmd
}
