package admin

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/archive/upkeep"
	"sheaf/internal/commandline"
	"sheaf/serve/client"
)

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
