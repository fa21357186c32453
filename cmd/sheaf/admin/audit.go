package admin

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
	"sheaf/serve/client"
)

func AuditCommand() *cobra.Command {
	var q audit.Query
	var csv bool
	cmd := OperatorFlags(&cobra.Command{
		Use:   "audit",
		Short: "Show who did what, and every log-in, newest first",
		Example: `  sheaf audit --since 2026-11-01 --act takedown
  sheaf audit --act login --outcome failed --csv > failed.csv`,
		Args: cobra.NoArgs,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			return ask(cmd, c, operators.ListAudit, q, func(w io.Writer, list audit.RowList) {
				if csv {
					_ = audit.WriteCSV(w, list.Rows) // cannot fail: w is in memory
					return
				}
				// Columns that may be long come last, so that they do not widen the others.
				Table(w, "time\twho\taddress\tact\toutcome\tabout", list.Rows, func(r audit.Row) []any {
					about := r.Object
					if r.Reason != "" {
						about += ": " + r.Reason
					}
					if r.Count > 1 {
						about += fmt.Sprintf(" (%d times)", r.Count)
					}
					return []any{Moment(r.At), string(r.Kind) + " " + r.Name, r.Address, r.Act, r.Outcome, about}
				})
				if list.Next != 0 {
					_, _ = io.WriteString(w, fmt.Sprintf("older ones: --before %d\n", list.Next)) // cannot fail: w is in memory
				}
			})
		}),
	})
	f := cmd.Flags()
	f.StringVar(&q.Since, "since", "", "only from this day or time on, such as 2026-11-21")
	f.StringVar(&q.Until, "until", "", "only before this day or time")
	f.StringVar(&q.Who, "who", "", "only of this operator, account or robot")
	f.StringVar((*string)(&q.Kind), "kind", "", "only of this kind: operator, account, robot, visitor or command")
	f.StringVar((*string)(&q.Act), "act", "", "only this act, such as login, add, change, remove, takedown")
	f.StringVar(&q.Object, "object", "", "only what is about this: a part of the name of an account, host, batch …")
	f.StringVar((*string)(&q.Outcome), "outcome", "", "only begun (its end is not known), ok, failed or refused")
	f.IntVar(&q.Limit, "limit", audit.DefaultLimit, "rows at most")
	f.Int64Var(&q.Before, "before", 0, "go on below the row with this number")
	f.BoolVar(&csv, "csv", false, "print CSV")
	return cmd
}
