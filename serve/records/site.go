package records

import (
	"context"
	"fmt"
	"strings"

	"sheaf/archive/naming"
	"sheaf/serve/library"
)

// siteHosts returns the hosts that share a host's URL keys: the host itself and its namesakes with
// and without www.
func siteHosts(ctx context.Context, v *library.AccountView, name string) ([]*library.Host, error) {
	names, err := namesakes(ctx, v, name)
	if err != nil {
		return nil, err
	}
	var hosts []*library.Host
	for _, name := range names {
		h, err := v.Host(ctx, naming.HostPath(name))
		if err != nil {
			return nil, err
		}
		if h != nil {
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

// namesakes returns the names that a host may have with and without www. It leaves out names such
// as www3 of which nothing is published.
func namesakes(ctx context.Context, v *library.AccountView, name string) ([]string, error) {
	surt := naming.HostSURT(name)
	if key, _, _ := strings.Cut(naming.SURT("http://"+name+"/"), ")"); key != surt {
		_, name, _ = strings.Cut(name, ".") // the key has no www, and the name has
	}
	names := []string{name, "www." + name}
	if strings.HasPrefix(naming.HostPath(name), "_ip/") {
		return names[:1], nil
	}
	numbered, err := numberedNames(ctx, v, name)
	return append(names, numbered...), err
}

// numberedNames returns the names such as www1.example.jp beside a name without www. It caches them
// for this version of the catalog.
func numberedNames(ctx context.Context, v *library.AccountView, name string) (names []string, err error) {
	memory := fmt.Sprintf("numbered %d %s %s", v.Snap.Version(), name, v.Veil.State())
	if kept, ok := v.Archive.Memo.Get(memory); ok {
		return kept.([]string), nil
	}
	// They lie beside one another: '/' sorts before the digits, ':' behind them.
	bare, port, hasPort := strings.Cut(name, ":")
	beside, err := v.Snap.Children(ctx, naming.HostPath(bare), "www/", library.PageSize)
	if err != nil {
		return nil, err
	}
	for _, c := range beside {
		digits, ok := strings.CutPrefix(c.Name, "www")
		if !ok || digits >= ":" {
			break
		}
		digits, of, ported := strings.Cut(digits, "_")
		if c.Leaf && strings.Trim(digits, "0123456789") == "" && of == port && ported == hasPort {
			names = append(names, "www"+digits+"."+name)
		}
	}
	v.Archive.Memo.Add(memory, names, int64(1+len(names))*64)
	return names, nil
}
