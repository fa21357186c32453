package library

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sheaf/archive/catalog"
	"sheaf/archive/naming"
	"sheaf/internal/cache"
	"sheaf/internal/weburl"
	"sheaf/serve/account"
)

// AccountView is one account's view of one version of the catalog. It may be used concurrently. It
// must not be used after Release.
type AccountView struct {
	Archive *Library
	Snap    *catalog.Snapshot
	Account *account.Account
	Scope   account.Scope
	Veil    *account.Veil // hides some of what is in the scope; nil: nothing

	users atomic.Int32 // users who have not released it
}

// Sight is a key of the account's scope and rules, independent of version and time. What is visible
// under a key stays visible under it, unless it is taken down or expires.
func (v *AccountView) Sight() string {
	sight := strings.Join(v.Scope, " ")
	if v.Veil != nil {
		sight += "\n" + v.Veil.Mark()
	}
	return sight
}

// Sees reports whether the account may see all that was visible under a Sight.
func (v *AccountView) Sees(sight string) bool {
	scope, mark, _ := strings.Cut(sight, "\n")
	return scope == strings.Join(v.Scope, " ") && v.Veil.Within(mark)
}

// Seen is a key of what the account may see now, for caches.
func (v *AccountView) Seen() string { return fmt.Sprintf("%q %s", v.Scope, v.Veil.State()) }

// Modified returns the later of two times: published, and when something of hosts at or below a
// place was last taken down, hidden or shown again. It considers the alterations for which counts
// returns true.
func (v *AccountView) Modified(published time.Time, place string, counts func(catalog.Alteration) bool) time.Time {
	of := func(a catalog.Alteration) bool {
		return counts(a) && account.Within(strings.ReplaceAll(a.Key, ",", "/"), place)
	}
	return lastOf(published, catalog.Alterations(v.Snap, ""), of, v.Veil.Since(place))
}

// Any counts every alteration. Give it to Modified.
func Any(catalog.Alteration) bool { return true }

// PageSize is how many entries of the catalog are read at once.
const PageSize = 1000

// Release lets go of the catalog's version, if no other user has the view.
func (v *AccountView) Release() {
	if v.users.Add(-1) == 0 {
		v.Snap.Release()
	}
}

// Again returns the view for one more user, who must release it too. It returns nil if all users
// have released it.
func (v *AccountView) Again() *AccountView {
	for n := v.users.Load(); n > 0; n = v.users.Load() {
		if v.users.CompareAndSwap(n, n+1) {
			return v
		}
	}
	return nil
}

// Shared returns what compute makes of an account's view, and keeps it under a key for all that see
// the same. Concurrent callers share one computation. The computation may outlast its caller, so it
// holds the view, too.
func Shared[T any](ctx context.Context, v *AccountView, key string, compute func(context.Context, *AccountView) (T, int64, error)) (T, error) {
	return SharedByAll(ctx, v, key+" "+v.Seen(), compute)
}

// SharedByAll is Shared for what does not depend on what the account may see.
func SharedByAll[T any](ctx context.Context, v *AccountView, key string, compute func(context.Context, *AccountView) (T, int64, error)) (T, error) {
	return cache.GetOrCompute(ctx, v.Archive.Memo, key, func(ctx context.Context) (t T, cost int64, err error) {
		own := v.Again()
		if own == nil {
			return t, 0, cache.ErrLeft
		}
		defer own.Release()
		return compute(ctx, own)
	})
}

// Host returns the host at a place; nil if the account sees no host there.
func (v *AccountView) Host(ctx context.Context, place string) (*Host, error) {
	if !v.Scope.Holds(place) {
		return nil, nil
	}
	name, err := naming.HostFromPath(place)
	if err != nil {
		return nil, nil // no host has such a name
	}
	segments, err := v.segments(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	if len(segments) == 0 {
		return nil, nil
	}
	return v.HostOf(segments), nil
}

// entryCost is about what a segment's entry takes in memory, in bytes.
const entryCost = 2100

// segments returns the host's segments that the account sees. It caches them by version, since
// parsing the entries takes longer than showing a page.
func (v *AccountView) segments(ctx context.Context, host string) ([]catalog.SegmentEntry, error) {
	key := fmt.Sprintf("host %d %s %s", v.Snap.Version(), host, v.Veil.OfHost(host).State())
	if kept, ok := v.Archive.Memo.Get(key); ok {
		return kept.([]catalog.SegmentEntry), nil
	}
	segments, err := v.Snap.Host(ctx, host)
	if err == nil {
		segments = slices.Clip(segments)                                      // nobody appends to what is kept
		v.Archive.Memo.Add(key, segments, int64((1+len(segments))*entryCost)) // also for a host that is not there
	}
	return segments, err
}

// HostOf returns the host of segments: at least one segment, in the order of publication.
func (v *AccountView) HostOf(segments []catalog.SegmentEntry) *Host {
	return v.hostWith(segments, v.Snap.Tombstones(segments[0].Host))
}

// hostWith is HostOf with the given take-downs in place of the present ones.
func (v *AccountView) hostWith(segments []catalog.SegmentEntry, stones []catalog.Tombstone) *Host {
	name := segments[0].Host
	h := &Host{
		Name: name, Place: naming.HostPath(name), Segments: segments,
		Version: v.Snap.Version(), Published: v.Snap.Published(), Tombstones: len(stones),
		from: v.Archive, stones: stones, veil: v.Veil.OfHost(name), altered: catalog.Alterations(v.Snap, catalog.Key(name)),
	}
	for _, t := range stones {
		if t.URLPrefix != "" {
			h.taken = append(h.taken, takenPages{t, weburl.PrefixOf(t.URLPrefix)})
		}
	}
	return h
}

// HostsOf yields the hosts to which segments belong. Segments of one host must follow one another.
func (v *AccountView) HostsOf(all iter.Seq2[catalog.SegmentEntry, error]) iter.Seq2[*Host, error] {
	return func(yield func(*Host, error) bool) {
		var segments []catalog.SegmentEntry // of one host
		for seg, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(segments) > 0 && segments[0].Host != seg.Host {
				if !yield(v.HostOf(segments), nil) {
					return
				}
				segments = nil
			}
			segments = append(segments, seg)
		}
		if len(segments) > 0 {
			yield(v.HostOf(segments), nil)
		}
	}
}

// Exists reports whether the account sees a host at or below a place.
func (v *AccountView) Exists(ctx context.Context, place string) (bool, error) {
	if v.Scope.Holds(place) {
		return v.populated(ctx, place)
	}
	for _, root := range v.Scope {
		if !account.Within(root, place) {
			continue
		}
		if ok, err := v.populated(ctx, root); ok || err != nil {
			return ok, err
		}
		if ports, err := v.OtherPorts(ctx, root); len(ports) > 0 || err != nil {
			return len(ports) > 0, err
		}
	}
	return false, nil
}

// populated reports whether there is a host at or below a place, for anybody.
func (v *AccountView) populated(ctx context.Context, place string) (bool, error) {
	below, err := v.Snap.Children(ctx, place, "", 1)
	if err != nil || len(below) > 0 {
		return len(below) > 0, err
	}
	host, err := naming.HostFromPath(place)
	if err != nil {
		return false, nil // no host has such a name
	}
	segments, err := v.Snap.Host(ctx, host)
	return len(segments) > 0, err
}

// OtherPorts returns the tree's entries for a place's host on other ports. They lie beside the
// place.
func (v *AccountView) OtherPorts(ctx context.Context, place string) ([]catalog.Child, error) {
	dir, base := path.Split(place)
	beside, err := v.Snap.Children(ctx, strings.TrimSuffix(dir, "/"), base+"_", PageSize)
	if err != nil {
		return nil, err
	}
	var ports []catalog.Child
	for _, c := range beside {
		if rest, ok := strings.CutPrefix(c.Name, base); ok && c.Leaf && account.IsPort(rest) {
			ports = append(ports, c)
		}
	}
	return ports, nil
}

// HostsUnder calls visit with the hosts at and below a place, on every port, that the account sees,
// in the order of catalog.Key. It begins with the host whose key is from, even if it is gone: of
// this host it passes only the names. If from is "", it begins with the first host.
func (v *AccountView) HostsUnder(ctx context.Context, place, from string, visit func(catalog.HostInfo) error) error {
	for _, root := range v.Scope.Under(place) {
		for _, prefix := range KeyPrefixes(root) {
			if key := from + " "; from != "" && key > prefix && !strings.HasPrefix(key, prefix) {
				continue // all its hosts come before
			}
			if err := v.hostsWithin(ctx, root, prefix, from, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostsWithin visits the hosts within root whose keys, each followed by a space, begin with prefix.
func (v *AccountView) hostsWithin(ctx context.Context, root, prefix, from string, visit func(catalog.HostInfo) error) error {
	last := ""
	if from != "" && strings.HasPrefix(from+" ", prefix) {
		last = from
		place := strings.ReplaceAll(from, ",", "/")
		if name, err := naming.HostFromPath(place); err == nil && account.Within(place, root) {
			if err := visit(catalog.HostInfo{Host: name, SURT: from}); err != nil {
				return err
			}
		}
	}
	for {
		page, err := v.Snap.Hosts(ctx, prefix, last, PageSize)
		if err != nil {
			return fmt.Errorf("search: %w", err)
		}
		for _, h := range page {
			last = h.SURT
			if !account.Within(naming.HostPath(h.Host), root) {
				continue
			}
			if err := visit(h); err != nil {
				return err
			}
		}
		if len(page) < PageSize {
			return nil
		}
	}
}

// KeyPrefixes returns the prefixes of the keys of the hosts at and below a place, each key followed
// by a space, in their order: of the host itself, of those below, and of those on other ports. Keys
// with the last prefix may also be of hosts outside the place.
func KeyPrefixes(place string) []string {
	if place == "" {
		return []string{""}
	}
	key := account.KeyPrefix(place)
	return []string{key + " ", key + ",", key + "_"}
}
