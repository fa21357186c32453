package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sheaf/archive/sortedrun"
	"sheaf/archive/store"
)

// objectCheck compares the objects that versions need with the objects in the store.
type objectCheck struct {
	store  store.Store
	index  DerivedIndex // nil: none
	report *Report
	sorter *sortedrun.Sorter // rows "<key> <end> <start>": the ranges that are needed
}

// need notes that an object's bytes from start up to end are needed. Only empty ranges of one
// object may overlap. For an object that may be missing, start and end are -1.
func (o *objectCheck) need(key string, start, end int64) error {
	if err := store.CheckKey(key); err != nil {
		o.report.problem(key, "%v", err)
		return nil
	}
	return o.sorter.Add(fmt.Appendf(nil, "%s %020d %020d\n", key, end+1, start+1))
}

// needWhole notes that an object of at least this size is needed. It may be called several times
// for an object.
func (o *objectCheck) needWhole(key string, size int64) error { return o.need(key, size, size) }

// IncomingPrefix begins the keys of batches that are not published yet. Only ingest puts and
// deletes these objects.
const IncomingPrefix = "incoming/"

// OwnerKey is the key of the object that names the store's installation.
const OwnerKey = "installation"

// keptPrefixes begin the keys of objects that are kept although nothing refers to them.
var keptPrefixes = []string{
	"batches/",  // the batches' manifests
	"releases/", // the robots' programs; not part of the archive
	"current/",  // the volumes of the latest versions; derived, like tables
	"tables/",   // of volumes; derived, and deleted by their maker
	IncomingPrefix,
	OwnerKey,
	listPrefix,
}

// check compares the ranges that were noted with the store's listing. Both are in the order of
// their keys.
func (o *objectCheck) check(ctx context.Context) error {
	needed, err := o.sorter.Rows(ctx)
	if err != nil {
		return err
	}
	for info, err := range o.store.List(ctx, "", "") {
		if err != nil {
			return err
		}
		for needed.Row() != nil && neededKey(needed.Row()) < info.Key {
			if err := o.take(ctx, needed, nil); err != nil {
				return err
			}
		}
		o.report.Objects++
		switch {
		case needed.Row() != nil && neededKey(needed.Row()) == info.Key:
			if err := o.take(ctx, needed, &info); err != nil {
				return err
			}
		case o.index != nil && strings.HasPrefix(info.Key, o.index.Prefix()):
			o.report.LeftOver++
			o.report.LeftOverBytes += info.Size
		case !slices.ContainsFunc(keptPrefixes, func(p string) bool { return strings.HasPrefix(info.Key, p) }):
			o.report.OrphanBytes += info.Size
			if o.report.Orphans++; len(o.report.OrphanKeys) < maxListed {
				o.report.OrphanKeys = append(o.report.OrphanKeys, info.Key)
			}
		}
	}
	for needed.Row() != nil {
		if err := o.take(ctx, needed, nil); err != nil {
			return err
		}
	}
	return nil
}

func neededKey(row []byte) string {
	key, _, _ := strings.Cut(string(row), " ")
	return key
}

// take reads all rows of one key. It checks that the ranges do not overlap, and that the object is
// large enough for all of them. info is nil if the store has no such object.
func (o *objectCheck) take(ctx context.Context, needed *sortedrun.Merged, info *store.Info) error {
	key := neededKey(needed.Row())
	var bytes int64
	for needed.Row() != nil && neededKey(needed.Row()) == key {
		var start, end int64
		if _, err := fmt.Sscanf(string(needed.Row()[len(key)+1:]), "%d %d", &end, &start); err != nil {
			return err
		}
		if start < bytes && start < end {
			o.report.problem(key, "two segments overlap: one ends at %d, another is from %d to %d", bytes-1, start-1, end-1)
		}
		bytes = end
		if err := needed.Next(ctx); err != nil {
			return err
		}
	}
	bytes--
	switch {
	case info == nil && bytes >= 0:
		o.report.problem(key, "is missing")
	case info != nil && info.Size < bytes:
		o.report.problem(key, "has %d bytes, the catalog refers to %d", info.Size, bytes)
	}
	return nil
}
