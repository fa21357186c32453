package library

import (
	"context"
	"fmt"
	"slices"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/api"
	"sheaf/serve/account"
)

// HostReport is all that is published of one host, with its take-downs.
type HostReport struct {
	Segments []catalog.SegmentEntry // in the order of publication
	// Newest is what the manifest of the newest batch says about pages that were not collected; nil
	// if it says nothing.
	Newest    *api.Coverage
	TakenDown []catalog.Tombstone // in force
}

// ReportHost tells what is published of a host. The report is empty if the account does not see the
// host.
func ReportHost(ctx context.Context, from *Library, a *account.Account, host string) (r HostReport, err error) {
	v, err := from.View(ctx, a)
	if err != nil {
		return r, err
	}
	defer v.Release()
	if !v.Scope.Holds(naming.HostPath(host)) {
		return r, nil
	}
	if r.Segments, err = v.Snap.Host(ctx, host); err != nil {
		return r, fmt.Errorf("segments of %s: %w", host, err)
	}
	if len(r.Segments) == 0 && v.Veil.OfHost(host) != nil {
		return r, nil
	}
	r.TakenDown = slices.DeleteFunc(slices.Clone(v.Snap.Tombstones(host)), func(t catalog.Tombstone) bool {
		return t.Act == catalog.Erase || t.URLPrefix != "" && v.Veil.HidesSome(host, t.URLPrefix)
	})
	if len(r.Segments) == 0 {
		return r, nil
	}
	id := r.Segments[len(r.Segments)-1].Batch
	version, ok, err := v.Snap.Batch(ctx, id)
	if err != nil || !ok {
		return r, err
	}
	batch := catalog.PublishedBatch{Batch: catalog.Batch{ID: id}, Version: version}
	s := CoverageSearch{Targets: []Target{{Match: MatchHost, Host: host}}}
	found, _, err := coverageInBatch(ctx, v, batch, &s, indexTargets(s.Targets), 0, 1)
	if err == nil && len(found) > 0 {
		r.Newest = &found[0]
	}
	return r, err
}
