package admin

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/internal/route"
)

func CollectionCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "collection", Short: "List, take down and restore what was imported as a collection"})
	cmd.AddCommand(asks("ls", "List the collections, with what is shown of them", upkeep.ListCollections, func(w io.Writer, list catalog.CollectionList) {
		Table(w, "name\ttaken down\thosts\trecords\tbytes\tfirst\tlast\tlicence\tsource", list.Collections, func(c catalog.ImportedCollection) []any {
			return []any{c.Name, c.TakenDown, c.Hosts, c.Records, c.Bytes, Moment(c.First), Moment(c.Last), c.Licence, c.Source}
		})
	}),
		collectionTakedownCommand("takedown", "Take down all that is published of a collection", upkeep.TakeDown, "%s is taken down from version %d on: %d hosts had something of it\n"),
		collectionTakedownCommand("restore", "Lift that; what was deleted meanwhile does not come back", upkeep.Lift, "%s is there again from version %d on, of %d hosts\n"))
	return cmd
}

// collectionTakedownCommand returns a command that asks for an operation on a collection. done is
// the output's format, with the name, the catalog's version and the number of hosts.
func collectionTakedownCommand(verb, short string, op route.Op[upkeep.TakedownRequest, upkeep.TakedownResponse], done string) *cobra.Command {
	var t upkeep.TakedownRequest
	return asking(&cobra.Command{
		Use:    verb + " NAME --reason TEXT",
		Short:  short,
		PreRun: func(_ *cobra.Command, args []string) { t.Collection = args[0] },
	}, op, &t, "reason by=$USER", printTakedown(&t, done))
}

// printTakedown returns the function that shows what was done to a collection, or to everything
// that a robot brought. done is the text's format, with the name, the catalog's version and the
// number of hosts.
func printTakedown(t *upkeep.TakedownRequest, done string) func(io.Writer, upkeep.TakedownResponse) {
	return func(w io.Writer, at upkeep.TakedownResponse) {
		fmt.Fprintf(w, done, t.Collection+t.Robot, at.Version, at.Hosts)
	}
}
