package records

import (
	"context"
	"fmt"

	"sheaf/archive/naming"
	"sheaf/serve/account"
)

// Captures returns the records of a URL by time and, for one instant, by publication. As in other
// web archives, records are found by the URL key (see naming.SURT): http and https, and the host
// with and without www, count as one URL, and Cell.URL tells them apart. Looking is allowed outside
// the account's window, too; bodies need a permit (see account.Access). Searches for URLs that have
// very many records take turns: many readers who ask for such a URL at once do not fill the memory.
func (r *Records) Captures(ctx context.Context, a *account.Account, url string) ([]*Capture, error) {
	name, err := naming.HostOf(url)
	if err != nil {
		return nil, nil // no record has such a URL
	}
	v, err := r.archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	hosts, err := siteHosts(ctx, v, name)
	if err != nil {
		return nil, fmt.Errorf("captures of %.200s: %w", url, err)
	}
	f := r.finder(a)
	leave := func() {}
	defer func() { leave() }()
	f.enter = func() error {
		select {
		case r.many <- struct{}{}:
			leave = func() { <-r.many }
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	captures, err := f.ofKey(ctx, hosts, naming.SURT(url))
	f.enter = nil // for captures, which may use f
	if err != nil {
		return nil, fmt.Errorf("captures of %.200s: %w", url, err)
	}
	return captures, setOriginals(ctx, captures)
}
