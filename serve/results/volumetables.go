package results

import (
	"context"

	"sheaf/internal/api"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
)

// MakeOf makes the table called name, one of tree.VolumeTables, about the segments of hosts. hosts
// are in the order of the tree.
func (x *Files) MakeOf(ctx context.Context, from *records.Records, a *account.Account, name string, hosts []*library.Host) (*Table, error) {
	if name == api.TableOfHosts {
		return x.Hosts(ctx, a, func() ([]api.Coverage, error) { return library.CoverageOfHosts(ctx, x.Archive, a, hosts) })
	}
	return x.Make(ctx, a, name, OfBodies, func(to TableSink) error {
		for _, h := range hosts {
			err := from.OfHost(ctx, a, h, func(c *records.Capture) error { return to.Add(ctx, c) })
			if err != nil {
				return err
			}
		}
		return nil
	})
}
