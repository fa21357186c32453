package admin

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"sheaf/internal/route"
	"sheaf/serve/client"
	"sheaf/ui/removal"
)

func RemovalCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "removal", Short: "List and decide what owners of sites ask to be removed"})
	cmd.AddCommand(removalListCommand(), removalShowCommand(),
		removalDecideCommand("grant ID", "Grant a request: take down what it names, have robots visit it no more, and tell the asker", true),
		removalDecideCommand("refuse ID --reason TEXT", "Refuse a request, and tell the asker why", false))
	return cmd
}

func removalListCommand() *cobra.Command {
	var q removal.ListQuery
	var state string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the requests, the latest first",
		Args:  cobra.NoArgs,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			if state != "" {
				q.States = []removal.State{removal.State(state)}
			}
			return ask(cmd, c, removal.ListRequests, q, func(w io.Writer, list removal.RequestList) {
				Table(w, "id\tstate\twish\tkind\ttarget\tasked\tproof", list.Requests, func(r removal.Request) []any {
					return []any{r.ID, r.State, r.Wish, r.Kind, r.Target, Moment(r.Created), r.Proof}
				})
			})
		}),
	}
	cmd.Flags().StringVar(&state, "state", "", "only requests in this state: open, proved, granted, refused or expired")
	return cmd
}

func removalShowCommand() *cobra.Command {
	return onOne("show ID", "Show one request, and its history", removal.ShowRequest, showRemoval)
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

func removalDecideCommand(use, short string, grant bool) *cobra.Command {
	by := removal.Decision{Grant: grant}
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return ask(cmd, c, removal.Settle, route.At[removal.Decision]{Name: args[0], Body: by}, showRemoval)
		}),
	}
	cmd.Flags().StringVar(&by.Reason, "reason", "", "what the asker is told")
	cmd.Flags().StringVar(&by.By, "by", os.Getenv("USER"), "who decides (USER)")
	if grant {
		cmd.Flags().BoolVar(&by.Unproved, "unproved", false, "grant it although nothing proves that the site is the asker's")
	}
	return cmd
}
