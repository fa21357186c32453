package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"sheaf/archive/catalog"
	"sheaf/ingest/upkeep"
	"sheaf/internal/api"
	"sheaf/serve/client"
)

// gcCommand has the service collect what nothing needs.
func gcCommand() *cobra.Command {
	var dryRun bool
	cmd := operatorFlags(&cobra.Command{
		Use:   "gc",
		Short: "Delete what nothing needs: condemn it, and delete what was condemned a day ago",
		Long: "Collect what no edition and no reader needs: merged runs, what failed attempts left, hosts that are taken down,\n" +
			"and, where collect.keep says so, old editions of which nothing is needed.\n" +
			"What is found is condemned, and deleted by a later collection if it still is without need (collect.delay).\n" +
			"The service does so by itself (collect.every).",
		Args: cobra.NoArgs,
		RunE: asOperator(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			c.HTTP.Timeout = collectTimeout
			var report catalog.Collection
			if err := c.Do(cmd.Context(), http.MethodPost, api.PathAdminCollect, upkeep.CollectRequest{DryRun: dryRun}, &report); err != nil {
				return err
			}
			return show(cmd, report, func(w io.Writer) error { return printCollection(w, &report) })
		}),
	})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and change nothing")
	return cmd
}

// collectTimeout is how long a collection may take: it reads every line that is published.
const collectTimeout = 12 * time.Hour

func printCollection(w io.Writer, r *catalog.Collection) error {
	for _, tally := range []struct {
		what string
		catalog.Tally
	}{{"condemned", r.Condemned}, {"waiting", r.Waiting}, {"deleted", r.Deleted}} {
		for _, d := range tally.Some {
			if _, err := fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", tally.what, d.Reason, d.Size, d.Key); err != nil {
				return err
			}
		}
	}
	would := ""
	if r.DryRun {
		would = " (dry run: nothing was changed)"
	}
	if old := r.Retained; old != nil {
		for _, failed := range old.Failed {
			if _, err := fmt.Fprintf(w, "kept\t%s\n", failed); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "expired   %d segments of %d bytes, published before %s and needed no more; %d hosts looked at\n",
			old.Expired, old.Bytes, old.Before.Format(time.RFC3339), old.Hosts); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, `version   %d, %d objects looked at%s
condemned %d objects of %d bytes, to be deleted after the delay
waiting   %d objects of %d bytes, condemned before
deleted   %d objects of %d bytes
left      %d of batches under way, %d too young, %d packs and %d URL prefixes of which other parts are not taken down
`, r.Version, r.Objects, would, r.Condemned.Objects, r.Condemned.Bytes, r.Waiting.Objects, r.Waiting.Bytes,
		r.Deleted.Objects, r.Deleted.Bytes, r.Claimed, r.Young, r.Shared, r.URLs)
	return err
}
