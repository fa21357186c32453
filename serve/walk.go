package serve

import (
	"context"
	"fmt"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
)

// walk goes through the hosts at and below a place, on every port, as far as the
// account sees them.
func (r *Results) walk(ctx context.Context, place string, at Position, after *Position, f func(*Capture, Position) error) error {
	from := ""
	if after != nil {
		from = after.Host
	}
	return r.hostsUnder(ctx, place, from, func(h catalog.HostInfo) error {
		at.Host = h.SURT
		if until := r.search.Until; until != nil && until.Target == at.Target && until.Host == h.SURT && until.Key == "" {
			return errPast
		}
		if r.search.spans(h.First, h.Last) {
			found, err := r.host(ctx, archive.HostPath(h.Host))
			if err != nil {
				return err
			}
			if found != nil {
				behind := after
				if after != nil && after.Host != h.SURT {
					behind = nil
				}
				if err := r.stream(ctx, []*host{found}, siteKeys(h.Host), at, behind, f); err != nil {
					return err
				}
			}
		}
		return r.pace(Position{Target: at.Target, Host: h.SURT, Key: endKey})
	})
}

// hostsUnder calls visit with the hosts at and below a place, on every port, that are in
// the account's scope, in the order of a search, from the one whose key is from on. Of that, which need not
// be there any more, it knows the name only.
func (v *visit) hostsUnder(ctx context.Context, place, from string, visit func(catalog.HostInfo) error) error {
	for _, root := range v.scope.Under(place) {
		for _, prefix := range subtree(root) {
			if g := from + " "; from != "" && g > prefix && !strings.HasPrefix(g, prefix) {
				continue // all of it lies before
			}
			if err := v.hostsWithin(ctx, root, prefix, from, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostsWithin visits the hosts within root whose keys, each with a blank behind it, begin with prefix.
func (v *visit) hostsWithin(ctx context.Context, root, prefix, from string, visit func(catalog.HostInfo) error) error {
	last := ""
	if from != "" && strings.HasPrefix(from+" ", prefix) {
		last = from
		place := strings.ReplaceAll(from, ",", "/")
		if name, err := archive.HostFromPath(place); err == nil && account.Within(place, root) {
			if err := visit(catalog.HostInfo{Host: name, SURT: from}); err != nil {
				return err
			}
		}
	}
	for {
		some, err := v.snap.Hosts(ctx, prefix, last, page)
		if err != nil {
			return fmt.Errorf("search: %w", err)
		}
		for _, h := range some {
			last = h.SURT
			if !account.Within(archive.HostPath(h.Host), root) {
				continue
			}
			if err := visit(h); err != nil {
				return err
			}
		}
		if len(some) < page {
			return nil
		}
	}
}

// subtree gives, in their order, what the keys of the hosts at and below a place
// begin with: its own, those below, those on other ports. What else begins with
// the last is not within the place.
func subtree(place string) []string {
	if place == "" {
		return []string{""}
	}
	key := account.KeyPrefix(place)
	return []string{key + " ", key + ",", key + "_"}
}
