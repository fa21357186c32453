package admin

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/internal/route"
	"sheaf/ui/removal"
)

// takedownCommand returns a command that asks for an operation on a host. done is the output's
// format, with the request's subject and the catalog's version.
func takedownCommand(verb, short string, op route.Op[upkeep.TakedownRequest, upkeep.TakedownResponse], done string) *cobra.Command {
	var t upkeep.TakedownRequest
	fields := "edition url_prefix reason by=$USER"
	if op.Act == upkeep.TakeDown.Act {
		fields += " unknown"
	}
	return asking(&cobra.Command{
		Use:    verb + " HOST --reason TEXT",
		Short:  short,
		PreRun: func(_ *cobra.Command, args []string) { t.Host = args[0] },
	}, op, &t, fields, func(w io.Writer, at upkeep.TakedownResponse) {
		fmt.Fprintf(w, done, named(&t), at.Version)
	})
}

// named returns the subject of a request about a host: the host, or a part of it.
func named(t *upkeep.TakedownRequest) string {
	what := t.Host
	if t.URLPrefix != "" {
		what += ", as far as URLs begin with " + t.URLPrefix + ","
	}
	if t.Edition != "" {
		what = "edition " + t.Edition + " of " + what
	}
	return what
}

func hostTakedownsCommand() *cobra.Command {
	var q upkeep.TakedownQuery
	return asking(&cobra.Command{
		Use:    "takedowns [HOST]",
		Short:  "List what was taken down and lifted, when, by whom and why",
		PreRun: func(_ *cobra.Command, args []string) { q.Host = strings.Join(args, "") },
	}, upkeep.ListTakedowns, &q, "", func(w io.Writer, list []catalog.Tombstone) {
		acts := map[catalog.Act]string{catalog.TakeDown: "take down", catalog.Lift: "lift", catalog.Erase: "delete"}
		Table(w, "host\tact\tedition\tcollection\turl\tat\tby\treason", list, func(t catalog.Tombstone) []any {
			return []any{t.Host, acts[t.Act], t.Edition, t.Collection, t.URLPrefix, t.At.Format(time.RFC3339), t.By, t.Reason}
		})
	})
}

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

func RemovalCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "removal", Short: "List and decide what owners of sites ask to be removed"})
	cmd.AddCommand(removalListCommand(), asks("show ID", "Show one request, and its history", removal.ShowRequest, showRemoval),
		asking(&cobra.Command{Use: "grant ID", Short: "Grant a request: take down what it names, have robots visit it no more, and tell the asker"},
			removal.Settle, &route.At[removal.Decision]{Body: removal.Decision{Grant: true}}, "reason unproved by=$USER", showRemoval),
		asking(&cobra.Command{Use: "refuse ID --reason TEXT", Short: "Refuse a request, and tell the asker why"},
			removal.Settle, new(route.At[removal.Decision]), "reason by=$USER", showRemoval))
	return cmd
}

func removalListCommand() *cobra.Command {
	var q removal.ListQuery
	var state string
	cmd := asking(&cobra.Command{
		Use:   "ls",
		Short: "List the requests, the latest first",
		PreRun: func(*cobra.Command, []string) {
			if state != "" {
				q.States = []removal.State{removal.State(state)}
			}
		},
	}, removal.ListRequests, &q, "", func(w io.Writer, list removal.RequestList) {
		Table(w, "id\tstate\twish\tkind\ttarget\tasked\tproof", list.Requests, func(r removal.Request) []any {
			return []any{r.ID, r.State, r.Wish, r.Kind, r.Target, Moment(r.Created), r.Proof}
		})
	})
	cmd.Flags().StringVar(&state, "state", "", "only requests in this state: open, proved, granted, refused or expired")
	return cmd
}

func showRemoval(w io.Writer, r removal.RequestDocument) {
	list := [][2]string{
		{"request", r.ID}, {"state", string(r.State)}, {"wish", string(r.Wish)}, {string(r.Kind), r.Target}, {"asker", r.Email}, {"reason", r.Reason},
		{"proof", r.Proof}, {"answer", r.Answer}, {"carried out", Moment(r.Carried)},
	}
	for _, e := range r.History {
		list = append(list, [2]string{Moment(e.At), fmt.Sprintf("%s: %s %s", e.By, e.Act, e.Note)})
	}
	facts(w, list)
}
