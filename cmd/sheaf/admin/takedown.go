package admin

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/internal/route"
	"sheaf/serve/client"
)

func hostTakedownCommand() *cobra.Command {
	return takedownCommand("takedown", "Take down a host, also what is collected later; or only one edition of it, or the pages below a URL",
		upkeep.TakeDown, "%s is taken down from version %d on\n")
}

func hostRestoreCommand() *cobra.Command {
	return takedownCommand("restore", "Lift a take-down; what was deleted meanwhile does not come back",
		upkeep.Lift, "%s is there again from version %d on\n")
}

// takedownCommand returns a command that asks for an operation on a host. It prints done, a format
// for the request's subject and the catalog's version.
func takedownCommand(verb, short string, op route.Op[upkeep.TakedownRequest, upkeep.TakedownResponse], done string) *cobra.Command {
	var t upkeep.TakedownRequest
	cmd := &cobra.Command{
		Use:   verb + " HOST --reason TEXT",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			t.Host = args[0]
			return ask(cmd, c, op, t, func(w io.Writer, at upkeep.TakedownResponse) {
				fmt.Fprintf(w, done, named(&t), at.Version)
			})
		}),
	}
	cmd.Flags().StringVar(&t.Edition, "edition", "", "only what this edition brought")
	cmd.Flags().StringVar(&t.URLPrefix, "url-prefix", "", "only the pages whose URL begins with this, by http and https")
	if op.Act == upkeep.TakeDown.Act {
		cmd.Flags().BoolVar(&t.Unknown, "unknown", false, "accept a host, or an edition, of which nothing was published")
	}
	cmd.Flags().StringVar(&t.Reason, "reason", "", "why (required); kept for ever")
	cmd.Flags().StringVar(&t.By, "by", os.Getenv("USER"), "who decides (USER)")
	return cmd
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
	return &cobra.Command{
		Use:   "takedowns [HOST]",
		Short: "List what was taken down and lifted, when, by whom and why",
		Args:  cobra.MaximumNArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			var q upkeep.TakedownQuery
			if len(args) > 0 {
				q.Host = args[0]
			}
			return ask(cmd, c, upkeep.ListTakedowns, q, func(w io.Writer, list []catalog.Tombstone) {
				acts := map[catalog.Act]string{catalog.TakeDown: "take down", catalog.Lift: "lift", catalog.Erase: "delete"}
				Table(w, "host\tact\tedition\tcollection\turl\tat\tby\treason", list, func(t catalog.Tombstone) []any {
					return []any{t.Host, acts[t.Act], t.Edition, t.Collection, t.URLPrefix, t.At.Format(time.RFC3339), t.By, t.Reason}
				})
			})
		}),
	}
}
