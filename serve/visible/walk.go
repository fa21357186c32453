package visible

import (
	"context"
	"fmt"
	"strings"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
)

// HostsUnder calls visit with the hosts at and below a place, on every port, that the account sees,
// in the order of catalog.Key. It begins with the host whose key is from; "" is the first. If that
// host is not there any more, visit gets its names only.
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
		if name, err := archive.HostFromPath(place); err == nil && account.Within(place, root) {
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
			if !account.Within(archive.HostPath(h.Host), root) {
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
