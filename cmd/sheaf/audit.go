package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/serve/client"
)

func auditCommand() *cobra.Command {
	var since, until, who, kind, act, object, outcome string
	var limit int
	var before int64
	var csv bool
	cmd := operatorFlags(&cobra.Command{
		Use:   "audit",
		Short: "Show who did what, and every log-in, newest first",
		Example: `  sheaf audit --since 2026-11-01 --act takedown
  sheaf audit --act login --outcome failed --csv > failed.csv`,
		Args: cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			path := withQuery(api.PathAudit, "since", since, "until", until, "who", who, "kind", kind, "act", act, "object", object,
				"outcome", outcome, "limit", strconv.Itoa(limit), "before", numberOrNone(before))
			return ask(cmd, c, http.MethodGet, path, nil, func(w io.Writer, list audit.RowList) {
				if csv {
					_ = audit.WriteCSV(w, list.Rows) // w is in memory
					return
				}
				// What may be long comes last, where it widens nothing.
				table(w, "time\twho\taddress\tact\toutcome\tabout", list.Rows, func(r audit.Row) []any {
					about := r.Object
					if r.Reason != "" {
						about += ": " + r.Reason
					}
					if r.Count > 1 {
						about += fmt.Sprintf(" (%d times)", r.Count)
					}
					return []any{moment(r.At), string(r.Kind) + " " + r.Name, r.Address, r.Act, r.Outcome, about}
				})
				if list.Next != 0 {
					_, _ = io.WriteString(w, "older ones: --before "+numberOrNone(list.Next)+"\n") // w is in memory
				}
			})
		}),
	})
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "only from this day or time on, such as 2026-11-21")
	f.StringVar(&until, "until", "", "only before this day or time")
	f.StringVar(&who, "who", "", "only of this operator, account or robot")
	f.StringVar(&kind, "kind", "", "only of this kind: operator, account, robot, visitor or command")
	f.StringVar(&act, "act", "", "only this act, such as login, add, change, remove, takedown")
	f.StringVar(&object, "object", "", "only what is about this: a part of the name of an account, host, batch …")
	f.StringVar(&outcome, "outcome", "", "only begun (its end is not known), ok, failed or refused")
	f.IntVar(&limit, "limit", audit.DefaultLimit, "rows at most")
	f.Int64Var(&before, "before", 0, "go on below the row with this number")
	f.BoolVar(&csv, "csv", false, "print CSV")
	return cmd
}

// numberOrNone is a number, or empty for 0.
func numberOrNone(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
