package serve

import (
	"context"
	"fmt"
	"slices"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
)

// HostReport is what there is to tell of one host.
type HostReport struct {
	Segments []catalog.SegmentEntry // in the order of publication
	// Coverage is what the manifest of the newest batch says of pages that were not collected; nil:
	// there is none.
	Coverage  *Coverage
	TakenDown []catalog.Tombstone // in force
}

// ReportHost tells what is published of a host. It is empty where the account may not see the host.
func (l *Library) ReportHost(ctx context.Context, a *account.Account, host string) (r HostReport, err error) {
	v, err := l.visit(ctx, a)
	if err != nil {
		return r, err
	}
	defer v.snap.Release()
	if !v.scope.Holds(archive.HostPath(host)) {
		return r, nil
	}
	if r.Segments, err = v.snap.Host(ctx, host); err != nil {
		return r, fmt.Errorf("segments of %s: %w", host, err)
	}
	r.TakenDown = slices.DeleteFunc(slices.Clone(v.snap.Tombstones(host)), func(t catalog.Tombstone) bool { return t.Act == catalog.Erase })
	if len(r.Segments) == 0 {
		return r, nil
	}
	batch, err := v.batch(ctx, r.Segments[len(r.Segments)-1].Batch)
	if err != nil || len(batch) == 0 {
		return r, err
	}
	target := []Target{{Match: MatchHost, Host: host}}
	found, _, err := v.coverageOf(ctx, batch[0], &CoverageSearch{Targets: target}, indexTargets(target), 0, 1)
	if err != nil {
		return r, err
	}
	if len(found) > 0 {
		r.Coverage = &found[0]
	}
	return r, nil
}
