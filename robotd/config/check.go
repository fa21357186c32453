package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"sheaf/internal/limits"
	"sheaf/internal/settings"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/robotd/fetch"
	"sheaf/robotd/polite"
	"sheaf/robotd/schedule"
)

// MaxRules is how long a robots.txt may be believed (RFC 9309, 2.4).
const MaxRules = 24 * time.Hour

// Plan checks the settings and returns the parsed form of those about time. The error names every
// setting that cannot be used.
func (c *Config) Plan() (p schedule.Plan, err error) {
	var is settings.Checks
	parsed := func(key, text string, err error) { is.Require(err == nil, key, text, fmt.Sprint(err)) }
	p.Every = c.Cycle
	p.Window, err = window.Parse(c.Window)
	parsed("window", c.Window, err)
	p.LogAt, err = schedule.ParseClock(c.LogAt)
	parsed("log_at", c.LogAt, err)
	parsed("contact", c.Contact, wire.CheckContact(c.Contact))
	_, err = polite.Ranges(c.Network.Ranges)
	parsed("network.ranges", fmt.Sprint(c.Network.Ranges), err)
	parsed("revisit.by", c.Revisit.By, schedule.Rule(c.Revisit.By).Check())
	for _, host := range slices.Sorted(maps.Keys(c.NotBetween)) {
		_, err := window.Parse(c.NotBetween[host])
		parsed("not_between."+host, c.NotBetween[host], err)
	}
	c.Log.Check(&is)
	c.checkTimes(&is)
	c.checkSizes(&is)
	c.checkAddresses(&is)
	return p, is.Err()
}

// Check returns an error that names every setting that cannot be used, or nil.
func (c *Config) Check() error {
	_, err := c.Plan()
	return err
}

func (c *Config) checkTimes(is *settings.Checks) {
	is.Require(c.Interval >= 0, "interval", c.Interval, "want a duration, such as 20s")
	is.Require(c.Watch.Every >= 0, "watch.every", c.Watch.Every, "want a duration, such as 10m, or 0")
	is.Require(c.Run.Time > 0, "run.time", c.Run.Time, "want a duration, such as 1m")
	is.Require(c.Adapt.Min >= 0, "adapt.min", c.Adapt.Min, "want a duration, such as 5s, or 0")
	is.Require(c.Adapt.Max >= 0, "adapt.max", c.Adapt.Max, "want a duration, such as 2m, or 0")
	is.Require(c.Page.Stall > 0, "page.stall", c.Page.Stall, "want a duration, such as 1m")
	is.Require(c.Network.Relearn > 0, "network.relearn", c.Network.Relearn, "want a duration, such as 1h")
	is.Require(c.Cycle >= 0, "cycle", c.Cycle, "want a duration, or 0 for one cycle a day")
	is.Require(c.For == 0 || c.For > 0 && c.Once, "for", c.For, "want a duration such as 2h, together with once")
	is.Require(c.Poll >= time.Second, "poll", c.Poll, "want at least 1s")
	is.Require(c.Statistics >= 0, "statistics", c.Statistics, "want a duration, such as 10m, or 0")
	is.Require(c.Express >= 0, "express", c.Express, "want a duration, such as 5m, or 0 for none")
	is.Require(c.Heartbeat >= 0, "heartbeat", c.Heartbeat, "want a duration, such as 5m, or 0 for none")
	is.Require(c.Page.Timeout > 0, "page.timeout", c.Page.Timeout, "want a duration, such as 10m")
	is.Require(c.Page.Full >= 0, "page.full", c.Page.Full, "want a duration, such as 720h")
	is.Require(24*time.Hour <= c.Revisit.AtLeast && c.Revisit.AtLeast <= 60*24*time.Hour, "revisit.at_least", c.Revisit.AtLeast, "want 24h to 1440h")
	is.Require(time.Minute <= c.Page.Rules && c.Page.Rules <= MaxRules, "page.rules", c.Page.Rules, "want 1m to 24h")
	is.Require(c.Upload.Poll > 0, "upload.poll", c.Upload.Poll, "want a duration, such as 1m")
	is.Require(c.Upload.BackOff > 0, "upload.back_off", c.Upload.BackOff, "want a duration, such as 10s")
	is.Require(0 <= c.Tap.Wait && c.Tap.Wait <= time.Minute, "tap.wait", c.Tap.Wait, "want 0s to 1m")
	is.Require(c.Update.Trial >= time.Second, "update.trial", c.Update.Trial, "want at least 1s")
}

func (c *Config) checkSizes(is *settings.Checks) {
	is.Require(c.Watch.Share > 0 && c.Watch.Share <= 1, "watch.share", c.Watch.Share, "want a part of the whole, above 0 and up to 1")
	is.Require(c.Run.Pages >= 1, "run.pages", c.Run.Pages, "want at least 1")
	is.Require(c.Limits.Bandwidth >= 0, "limits.bandwidth", c.Limits.Bandwidth, "want bytes per second, or 0")
	is.Require(c.Limits.Daily >= 0, "limits.daily", c.Limits.Daily, "want bytes, or 0")
	is.Require(c.Limits.Monthly >= 0, "limits.monthly", c.Limits.Monthly, "want bytes, or 0")
	is.Require(c.Memory.Garbage >= 0, "memory.garbage", c.Memory.Garbage, "want bytes, or 0")
	is.Require(c.Memory.Limit >= 0, "memory.limit", c.Memory.Limit, "want bytes, or 0")
	is.Require(c.Disk.Free >= 0, "disk.free", c.Disk.Free, "want bytes, or 0")
	is.Require(c.Disk.Spool >= 0, "disk.spool", c.Disk.Spool, "want bytes, or 0")
	is.Require(1 <= c.Concurrency && c.Concurrency <= 100_000, "concurrency", c.Concurrency, "want 1 to 100000")
	for name, m := range map[string]Module{"modules.extract": c.Modules.Extract, "modules.store": c.Modules.Store} {
		is.Require(0 <= m.Workers && m.Workers <= 1000, name+".workers", m.Workers, "want 0 to 1000")
		is.Require(0 <= m.Queue && m.Queue <= 100_000, name+".queue", m.Queue, "want 0 to 100000")
	}
	is.Require(1 <= c.Page.MaxBytes && c.Page.MaxBytes <= limits.MaxBody, "page.max_bytes", c.Page.MaxBytes, fmt.Sprintf("want 1 to %d bytes: the service takes no longer page", int64(limits.MaxBody)))
	is.Require(c.Page.MaxPerHost >= 1, "page.max_per_host", c.Page.MaxPerHost, "want at least 1")
	is.Require(c.Links.Max >= 1, "links.max", c.Links.Max, "want at least 1; links.record: false records none")
	is.Require(c.Page.MaxDepth >= 0, "page.max_depth", c.Page.MaxDepth, "want 0 or more")
	is.Require(c.Page.MaxPath >= 1, "page.max_path", c.Page.MaxPath, "want at least 1")
	is.Require(c.Page.Tries >= 1, "page.tries", c.Page.Tries, "want at least 1")
	is.Require(c.Batch.Size >= 1, "batch.size", c.Batch.Size, "want a positive number of bytes")
	is.Require(1 <= c.Batch.Level && c.Batch.Level <= 9, "batch.level", c.Batch.Level, "want 1 to 9")
	is.Require(c.Tap.Buffer >= 1, "tap.buffer", c.Tap.Buffer, "want a positive number of bytes")
}

func (c *Config) checkAddresses(is *settings.Checks) {
	is.Require(c.DataDir != "", "data", c.DataDir, "want a folder")
	metrics, err := netip.ParseAddrPort(c.Metrics)
	is.Require(c.Metrics == "" || err == nil && metrics.Addr().IsLoopback(), "metrics", c.Metrics, "want a loopback address with a port, such as 127.0.0.1:9464")
	_, _, err = net.SplitHostPort(c.Hands.Listen)
	is.Require(c.Hands.Listen == "" || err == nil, "hands.listen", c.Hands.Listen, "want host:port, such as 192.0.2.7:9465 or :9465")
	is.Require(c.TLS.Verify == TLSRecord || c.TLS.Verify == TLSRefuse, "tls.verify", c.TLS.Verify, `want "record" or "refuse"`)
	is.Require(c.Upload.By == "http" || c.Upload.By == "ftp", "upload.by", c.Upload.By, `want "http" or "ftp"`)
	is.Require(c.Upload.URL == "" || IsURL(c.Upload.URL, "http", "https"), "upload.url", c.Upload.URL, "want an http or https URL")
	is.Require(c.Network.Proxy == "" || IsURL(c.Network.Proxy, "http", "https", "socks5"), "network.proxy", c.Network.Proxy, "want an http, https or socks5 URL")
	for _, u := range c.Manager {
		is.Require(IsURL(u, "http", "https"), "manager", u, "want http or https URLs")
	}
	_, err = netip.ParseAddrPort(c.Network.Resolver)
	is.Require(err == nil || c.Network.Resolver == "", "network.resolver", c.Network.Resolver, "want an IP address with a port")
	for _, name := range slices.Sorted(maps.Keys(c.Network.Hosts)) {
		to := c.Network.Hosts[name]
		_, err := fetch.ParseAddresses(to)
		is.Require(err == nil, "network.hosts."+name, to, "want an IP address, with or without a port, or several with blanks between")
	}
}

// IsURL reports whether s is a URL with a host and one of the schemes.
func IsURL(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && slices.Contains(schemes, u.Scheme)
}
