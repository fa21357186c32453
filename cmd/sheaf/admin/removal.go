package admin

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/internal/route"
	"sheaf/ui/removal"
)

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
