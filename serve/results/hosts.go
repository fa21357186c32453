package results

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/api"
	"sheaf/serve/account"
	"sheaf/serve/library"
)

// hostRow is one row of the table of hosts: what became of a host's pages in one batch, as
// wire.Coverage tells it. Where a Coverage has numbers by reason, the row has their sum.
type hostRow struct {
	Host      string `parquet:"host"`
	SURT      string `parquet:"host_surt"` // catalog.Key of the host, by which rows are sorted
	Edition   string `parquet:"edition,dict"`
	Published int64  `parquet:"published_time,timestamp(microsecond)"`
	Sealed    int64  `parquet:"sealed_time,timestamp(microsecond)"` // when the robot made the batch
	Robot     string `parquet:"robot,dict"`
	Batch     string `parquet:"batch,dict"`
	pageColumns
}

// pageColumns count pages, except Bytes, Changed and Asks.
type pageColumns struct {
	Fetched   int64 `parquet:"fetched"`   // and archived in full
	Unchanged int64 `parquet:"unchanged"` // archived as revisits
	Answers   int64 `parquet:"answers"`   // redirects and errors
	Truncated int64 `parquet:"truncated"` // of fetched
	Blocked   int64 `parquet:"blocked"`   // of the answers: pages that keep robots out
	Priced    int64 `parquet:"priced"`    // of the answers: refusals that ask for a price or a licence
	Refused   int64 `parquet:"refused"`   // by robots.txt, or for their owner
	Withheld  int64 `parquet:"withheld"`  // not archived because the page asks for that
	Failed    int64 `parquet:"failed"`    // given up after all tries
	Deferred  int64 `parquet:"deferred"`  // left in the queue, or for a later cycle
	Bytes     int64 `parquet:"bytes"`     // of the host's segments of the batch, compressed

	// Changed is the share of the visited pages that had changed or were new; NULL if none was
	// visited. Asks is what the host's robots.txt asks: see package preference.
	Changed *float64 `parquet:"change_rate,optional"`
	Asks    string   `parquet:"robots_preferences,optional,dict"`
}

// Hosts makes a table of the coverage that find returns.
func (x *Files) Hosts(ctx context.Context, a *account.Account, find func() ([]api.Coverage, error)) (*Table, error) {
	return x.write(ctx, a, func(to io.Writer) (int64, error) {
		rows, err := x.hostRows(ctx, a, find)
		if err != nil {
			return 0, err
		}
		w := newParquet[hostRow](to, pageBytes)
		if _, err := w.Write(rows); err != nil {
			return 0, err
		}
		return int64(len(rows)), w.Close()
	})
}

func (x *Files) hostRows(ctx context.Context, a *account.Account, find func() ([]api.Coverage, error)) ([]hostRow, error) {
	found, err := find()
	if err != nil {
		return nil, err
	}
	v, err := x.Archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	rows := make([]hostRow, len(found))
	for i := range found {
		if rows[i], err = hostRowOf(ctx, v, &found[i]); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(rows, func(a, b hostRow) int {
		return cmp.Or(cmp.Compare(a.SURT, b.SURT), cmp.Compare(a.Published, b.Published), cmp.Compare(a.Sealed, b.Sealed))
	})
	return rows, nil
}

func hostRowOf(ctx context.Context, v *library.AccountView, c *api.Coverage) (row hostRow, err error) {
	row = hostRow{
		Host: c.Host, SURT: catalog.Key(c.Host), Edition: c.Edition, Robot: c.Robot, Batch: c.Batch,
		Published: c.Published.UnixMicro(), Sealed: c.Created.UnixMicro(),
		pageColumns: pageColumns{
			Fetched: c.Collected, Unchanged: c.Unchanged, Answers: sum(c.Answers), Truncated: sum(c.Truncated), Blocked: c.Marked["blocked"], Priced: c.Marked["priced"] + c.Marked["licence"],
			Refused: c.Refused, Withheld: c.Withheld, Failed: sum(c.Failed), Deferred: c.Left + c.Later,
		},
	}
	if visited := c.Collected + c.Unchanged; visited > 0 {
		row.Changed = new(float64(c.Collected) / float64(visited))
	}
	segments, err := v.Snap.HostEdition(ctx, c.Host, c.Edition)
	if err != nil {
		return row, fmt.Errorf("table of hosts: %s: %w", c.Host, err)
	}
	for i := range segments {
		if segments[i].Batch == c.Batch {
			row.Bytes += segments[i].Length
			row.Asks = cmp.Or(strings.TrimPrefix(segments[i].Preferences, archive.AsksNothing), row.Asks)
		}
	}
	return row, nil
}

// sum returns the sum of numbers by reason.
func sum(of map[string]int64) (n int64) {
	for m := range maps.Values(of) {
		n += m
	}
	return n
}
