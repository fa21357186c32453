package admin

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sheaf/internal/audit"
	"sheaf/internal/operators"
)

func AuditCommand() *cobra.Command {
	var q audit.Query
	var csv bool
	cmd := OperatorFlags(asking(&cobra.Command{
		Use:   "audit",
		Short: "Show who did what, and every log-in, newest first",
		Example: `  sheaf audit --since 2026-11-01 --act takedown
  sheaf audit --act login --outcome failed --csv > failed.csv`,
	}, operators.ListAudit, &q, "since until who kind act object outcome limit before", func(w io.Writer, list audit.RowList) {
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
			fmt.Fprintf(w, "older ones: --before %d\n", list.Next)
		}
	}))
	cmd.Flags().BoolVar(&csv, "csv", false, "print CSV")
	return cmd
}
