package robotd

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"sheaf/archive"
	"sheaf/internal/settings"
	"sheaf/robotd/config"
	"sheaf/robotd/control"
	"sheaf/robotd/fetch"
)

// newFetcher returns the fetcher of pages. dial connects to web servers; nil: by TCP. sign signs
// requests; nil: they are not signed.
func newFetcher(cfg *config.Config, temp string, dial func(ctx context.Context, network, addr string) (net.Conn, error), sign func(h http.Header, scheme, host string)) (*fetch.Fetcher, error) {
	opt := lookUpOptions(cfg)
	if cfg.Network.Proxy != "" {
		var err error
		if opt.Proxy, err = url.Parse(cfg.Network.Proxy); err != nil {
			return nil, err
		}
	}
	if limit := cfg.Limits.Bandwidth; limit > 0 { // a second's worth may come at once
		opt.Limit = rate.NewLimiter(rate.Limit(limit), int(min(limit, 1<<20)))
	}
	opt.UserAgent, opt.Timeout, opt.MaxBody = userAgent(cfg), cfg.Page.Timeout, cfg.Page.MaxBytes
	opt.Connect = min(30*time.Second, cfg.Page.Stall/2) // a dead address is known before the watchdog ends the fetch
	opt.AnyCertificate, opt.TempDir, opt.Dial, opt.Sign = cfg.TLS.Verify == config.TLSRecord, temp, dial, sign
	return fetch.New(opt), nil
}

// lookUpOptions returns the options of a fetcher that only looks up hosts.
func lookUpOptions(cfg *config.Config) fetch.Options {
	opt := fetch.Options{Overrides: cfg.Network.Hosts, AllowPrivate: cfg.Network.AllowPrivate}
	if addr := cfg.Network.Resolver; addr != "" {
		opt.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}
	}
	return opt
}

// openFiles returns how many files the process may have open. Half of them may be segments; the
// others are for connections.
func openFiles() int {
	const most, least = 100_000, 256
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return least
	}
	return int(max(min(limit.Cur, most), least))
}

// openTap opens the socket for consumers on this machine, or returns nil if the settings want none.
// It also returns nil if the default socket fails, since some network disks have no sockets.
func openTap(cfg *config.Config, log *slog.Logger) (*control.Tap, error) {
	path := cfg.TapSocket()
	if path == "" {
		return nil, nil
	}
	t, err := listenTap(path, cfg, log)
	if err != nil && cfg.Tap.Socket == "" {
		log.Warn("nobody can read records as they are stored", "err", err)
		return nil, nil
	}
	if err != nil {
		return nil, settings.Wrong("tap.socket", path, err.Error())
	}
	return t, nil
}

// tapBuffer is how many bytes are queued for each consumer of the tap.
const tapBuffer = 16 << 20

func listenTap(path string, cfg *config.Config, log *slog.Logger) (*control.Tap, error) {
	// Every stream begins like the warc.gz of no records.
	empty, err := archive.NewView(archive.WARC, nil)
	if err != nil {
		return nil, err
	}
	in, err := empty.OpenRange(context.Background(), 0, empty.Size())
	if err != nil {
		return nil, err
	}
	defer in.Close()
	start, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	return control.ListenTap(control.TapOptions{Path: path, Buffer: tapBuffer, Wait: cfg.Tap.Wait, Start: start, Log: log})
}
