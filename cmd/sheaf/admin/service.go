package admin

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/cmd/sheaf/service"
	"sheaf/internal/api"
	"sheaf/internal/audit"
	"sheaf/internal/commandline"
	"sheaf/internal/operators"
	"sheaf/internal/route"
	"sheaf/internal/transfers"
	"sheaf/serve/client"
	"sheaf/ui/board"
)

func WrongCommand() *cobra.Command {
	return OperatorFlags(asks("wrong", "Say what is wrong now, as the board's first page does", board.ListWrong, func(w io.Writer, answer board.WrongResponse) {
		if len(answer.Wrong) == 0 {
			fmt.Fprintln(w, "nothing is wrong")
			return
		}
		Table(w, "kind\twhat\tsince\twhy", answer.Wrong, func(f board.Failure) []any {
			return []any{f.Kind, f.What, Moment(f.Since), f.Why}
		})
	}))
}

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

func TransfersCommand() *cobra.Command {
	var q transfers.PeriodQuery
	var running, csv bool
	cmd := OperatorFlags(&cobra.Command{
		Use:   "transfers",
		Short: "Show bytes, seconds and bytes/s of every robot and account",
		Long: `Show bytes, seconds and bytes/s of every robot and account: the sums of all recorded transfers or,
with --by, --since, --until or --each, of those in each hour, day or month (default day).`,
		Example: `  sheaf transfers --by day --since 2026-11-01
  sheaf transfers --by month --each --csv > rates.csv`,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if csv || q.Each || q.Since != "" || q.Until != "" || q.By != "" {
				q.Each = q.Each || q.Who != ""
				return ask(cmd, c, board.ListPeriods, q, func(w io.Writer, doc transfers.PeriodDocument) {
					write := transfers.WritePeriods
					if csv {
						write = transfers.WritePeriodsCSV
					}
					_ = write(w, doc.Periods) // cannot fail: w is in memory
				})
			}
			return ask(cmd, c, board.ListTransfers, transfers.Query{Who: q.Who, Direction: q.Direction}, func(w io.Writer, doc transfers.Document) {
				if running {
					_ = transfers.WriteRunning(w, doc.Running) // cannot fail: w is in memory
					return
				}
				_ = transfers.WriteTable(w, doc.Totals) // cannot fail: w is in memory
			})
		}),
	})
	commandline.Flags(cmd, &q, "who direction by= since until each")
	cmd.Flags().BoolVar(&csv, "csv", false, "print CSV")
	cmd.Flags().BoolVar(&running, "running", false, "only the transfers that run now in the process at --url")
	return cmd
}

func KeyCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "key", Short: "List the service's keys, and rotate the one that signs"})
	cmd.AddCommand(asks("ls", "List the keys, and the robots that do not know the newest of the service's", service.ListKeys, showKeys), keyRotateCommand(), keyUseCommand())
	return cmd
}

func keyRotateCommand() *cobra.Command {
	var wanted service.KeyRotation
	return asking(&cobra.Command{
		Use:   "rotate",
		Short: "Make the next key of the service, and tell the robots of it",
		Long: `Make the next key of the service, which signs receipts, hand-overs and the links to robots' pages.
The key that signs now goes on signing. It signs a statement about the next one, which the robots get
when they start and at each poll (an hour). "sheaf key ls" shows which robots do not know the key yet.
When all do, "sheaf key use" lets it sign. Nothing is restarted.

If the key was stolen, give --compromised: a thief can sign statements, too, so none is made. The new
key signs at once, and each robot has to be joined again.`,
	}, service.RotateKey, &wanted, "compromised", func(w io.Writer, list service.KeyList) {
		showKeys(w, list)
		if wanted.Compromised {
			fmt.Fprint(w, "\nThe new key signs. The robots above refuse its receipts, keep their batches, and have to be joined again, each at its site:\n"+
				"  sheaf robot revoke NAME, sheaf robot add NAME; there: stop robotd, delete robot.json in its folder, robotd join, start it\n"+
				"Make a backup now: none from before has the new key.\n")
			return
		}
		fmt.Fprint(w, "\nMake a backup now, and when \"sheaf key ls\" shows no robots any more, run: sheaf key use\n")
	})
}

func keyUseCommand() *cobra.Command {
	return asking(&cobra.Command{Use: "use", Short: "Let the next key of the service sign; the former one is destroyed"},
		service.UseKey, new(service.KeyUse), "leave", func(w io.Writer, list service.KeyList) {
			showKeys(w, list)
			fmt.Fprint(w, "\nThe next key signs in all processes. Make a backup now: older ones do not have what has changed.\n")
		})
}

func showKeys(w io.Writer, list service.KeyList) {
	Table(w, "key\tstate\tmade\tin use since\tid\tfor\twhere", list.Keys, func(k service.Key) []any {
		return []any{k.Name, k.State, Moment(k.Made), Moment(k.Used), fmt.Sprintf("%.16s", k.ID), k.For, k.Where}
	})
	if len(list.Robots) > 0 {
		fmt.Fprintln(w)
		Table(w, "robot\tdoes not know the service's newest key", list.Robots, func(r api.KeyTrouble) []any { return []any{r.Robot, r.Why} })
	}
}

// collectTimeout is the most time that a collection may take. A collection reads every line of the
// catalog.
const collectTimeout = 12 * time.Hour

func GcCommand() *cobra.Command {
	var wanted upkeep.CollectRequest
	cmd := OperatorFlags(&cobra.Command{
		Use:   "gc",
		Short: "Delete stored objects that nothing needs",
		Long: `Find objects in the store that no edition and no reader needs: runs that were merged, the remains of
failed attempts, hosts that are taken down and, if collect.keep is set, old editions. They are condemned
now, and deleted by a collection at least a day later if nothing needs them then. The service does this
by itself every six hours.`,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			c.HTTP.Timeout = collectTimeout
			return ask(cmd, c, upkeep.Collect, wanted, printCollection)
		}),
	})
	commandline.Flags(cmd, &wanted, "dry_run")
	return cmd
}

func printCollection(w io.Writer, r *catalog.Collection) {
	for _, list := range []struct {
		what string
		catalog.Tally
	}{{"condemned", r.Condemned}, {"waiting", r.Waiting}, {"deleted", r.Deleted}} {
		for _, d := range list.Some {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", list.what, d.Reason, d.Size, d.Key)
		}
	}
	if old := r.Retained; old != nil {
		for _, failed := range old.Failed {
			fmt.Fprintf(w, "kept\t%s\n", failed)
		}
		fmt.Fprintf(w, "expired   %d segments of %d bytes, published before %s and no longer needed; %d hosts looked at\n",
			old.Expired, old.Bytes, old.Before.Format(time.RFC3339), old.Hosts)
	}
	dry := ""
	if r.DryRun {
		dry = " (dry run: nothing was changed)"
	}
	fmt.Fprintf(w, `version   %d, %d objects looked at%s
condemned %d objects of %d bytes, to be deleted after the delay
waiting   %d objects of %d bytes, condemned before
deleted   %d objects of %d bytes
left      %d of unfinished batches, %d too young, %d packs and %d URL prefixes of which other parts are not taken down
`, r.Version, r.Objects, dry, r.Condemned.Objects, r.Condemned.Bytes, r.Waiting.Objects, r.Waiting.Bytes,
		r.Deleted.Objects, r.Deleted.Bytes, r.Claimed, r.Young, r.Shared, r.URLs)
}

func IndexCommand() *cobra.Command {
	cmd := OperatorFlags(&cobra.Command{Use: "index", Short: "Rebuild the index of records by URL"})
	cmd.AddCommand(&cobra.Command{
		Use:   "rebuild",
		Short: "Build the index of records by URL again from the segments",
		Long: `Build the index of records by URL again from the segments, in the background, such as when fsck has
found an error in it. Meanwhile queries read the segments, which is slower. The service keeps the index
up to date by itself, and rebuilds an index that it finds damaged.`,
		RunE: AsOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			if err := tell(cmd, c, upkeep.Rebuild, route.None{}); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "the index is being built again")
			return err
		}),
	})
	return cmd
}
