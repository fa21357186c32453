package admin

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/internal/route"
	"sheaf/serve/client"
)

func CollectionCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "collection", Short: "List, take down and restore what was imported as a collection"})
	cmd.AddCommand(onAll("ls", "List the collections, with what is shown of them", upkeep.ListCollections, func(w io.Writer, list catalog.CollectionList) {
		Table(w, "name\ttaken down\thosts\trecords\tbytes\tfirst\tlast\tlicence\tsource", list.Collections, func(c catalog.ImportedCollection) []any {
			return []any{c.Name, c.TakenDown, c.Hosts, c.Records, c.Bytes, Moment(c.First), Moment(c.Last), c.Licence, c.Source}
		})
	}),
		collectionTakedownCommand("takedown", "Take down all that is published of a collection", upkeep.TakeDown, "%s is taken down from version %d on: %d hosts had something of it\n"),
		collectionTakedownCommand("restore", "Lift that; what was deleted meanwhile does not come back", upkeep.Lift, "%s is there again from version %d on, of %d hosts\n"))
	return cmd
}

// collectionTakedownCommand returns a command that asks for an operation on a collection. It prints
// done, a format for the name, the catalog's version and the number of hosts.
func collectionTakedownCommand(verb, short string, op route.Op[upkeep.TakedownRequest, upkeep.TakedownResponse], done string) *cobra.Command {
	var t upkeep.TakedownRequest
	cmd := &cobra.Command{
		Use:   verb + " NAME --reason TEXT",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			t.Collection = args[0]
			return printTakedown(cmd, c, op, t, done)
		}),
	}
	cmd.Flags().StringVar(&t.Reason, "reason", "", "why (required); kept for ever")
	cmd.Flags().StringVar(&t.By, "by", os.Getenv("USER"), "who decides (USER)")
	return cmd
}

// printTakedown asks for an operation on a collection, or on everything that a robot brought. It
// prints done, a format for the name, the catalog's version and the number of hosts.
func printTakedown(cmd *cobra.Command, c *client.Client, op route.Op[upkeep.TakedownRequest, upkeep.TakedownResponse], t upkeep.TakedownRequest, done string) error {
	return ask(cmd, c, op, t, func(w io.Writer, at upkeep.TakedownResponse) {
		fmt.Fprintf(w, done, t.Collection+t.Robot, at.Version, at.Hosts)
	})
}
