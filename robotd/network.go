package robotd

import (
	"context"
	"net"
	"net/url"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"sheaf/robotd/config"
	"sheaf/robotd/fetch"
)

// fetching is how pages are fetched.
func (r *Robot) fetching(proxy *url.URL, temp string) fetch.Options {
	return fetch.Options{
		Resolver: resolver(r.cfg.Network.Resolver), Limit: bandwidth(r.cfg.Limits.Bandwidth),
		UserAgent: r.cfg.UserAgent(Version), Overrides: r.cfg.Network.Hosts, Proxy: proxy,
		AllowPrivate: r.cfg.Network.AllowPrivate, MaxBody: r.cfg.Page.MaxBytes, AnyCertificate: r.cfg.TLS.Verify == config.TLSRecord,
		Timeout: r.cfg.Page.Timeout, TempDir: temp, Dial: r.world.dial,
	}
}

// maxOpen is how many segments are kept open. An open one costs half a kilobyte, and opening it again little.
const maxOpen = 512

// openFiles is how many files the process may have open. Half of them may be
// segments, the others are for connections.
func openFiles() int {
	const most, least = 100_000, 256
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return least
	}
	return int(max(min(limit.Cur, most), least))
}

// resolver asks the name server at addr; empty: the system's.
func resolver(addr string) *net.Resolver {
	if addr == "" {
		return nil
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
}

// bandwidth limits to bytes per second; a second's worth may come at once.
func bandwidth(bytes int64) *rate.Limiter {
	if bytes == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytes), int(min(bytes, 1<<20)))
}
