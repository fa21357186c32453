package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"sheaf/internal/limits"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/robotd/polite"
	"sheaf/robotd/schedule"
)

// MaxRules is how long a robots.txt may be believed (RFC 9309, 2.4).
const MaxRules = 24 * time.Hour

// Plan returns the times that the settings name. Its error is that of Check.
func (c *Config) Plan() (schedule.Plan, error) {
	p := schedule.Plan{Every: c.Cycle}
	var errs [2]error
	if p.Window, errs[0] = window.Parse(c.Window); errs[0] != nil {
		errs[0] = Wrong("window", c.Window, errs[0].Error())
	}
	if p.LogAt, errs[1] = schedule.ParseClock(c.LogAt); errs[1] != nil {
		errs[1] = Wrong("log_at", c.LogAt, errs[1].Error())
	}
	return p, errors.Join(errs[0], errs[1], c.checkValues(), c.checkMaps())
}

// Check returns an error that names each wrong setting with its value.
func (c *Config) Check() error {
	_, err := c.Plan()
	return err
}

// rule is what must hold for one setting.
type rule struct {
	key   string
	value any
	ok    bool
	want  string
}

// Bounds that several settings share.
func least[T cmp.Ordered](key string, value, low T, want string) rule {
	return rule{key, value, value >= low, want}
}
func positive(key string, d time.Duration, example string) rule {
	return rule{key, d, d > 0, "a duration such as " + example}
}
func duration(key string, d time.Duration, example string) rule {
	return least(key, d, 0, "a duration such as "+example)
}
func bytes(key string, n int64) rule { return least(key, n, 0, "bytes, or 0") }
func web(key, value string, schemes ...string) rule {
	return rule{key, value, value == "" || IsURL(value, schemes...), "a URL that begins with one of " + fmt.Sprint(schemes)}
}

// checkValues checks the settings that are single values.
func (c *Config) checkValues() error {
	errs := []error{}
	refuse := func(key string, value any, err error) {
		if err != nil {
			errs = append(errs, Wrong(key, value, err.Error()))
		}
	}
	refuse("contact", c.Contact, wire.CheckContact(c.Contact))
	refuse("revisit.by", c.Revisit.By, schedule.Rule(c.Revisit.By).Check())
	_, err := polite.Ranges(c.Network.Ranges)
	refuse("network.ranges", c.Network.Ranges, err)
	if _, err := netip.ParseAddrPort(c.Network.Resolver); c.Network.Resolver != "" && err != nil {
		refuse("network.resolver", c.Network.Resolver, errors.New("want an IP address with a port"))
	}
	metrics, err := netip.ParseAddrPort(c.Metrics)
	for _, r := range slices.Concat(c.visitRules(), c.pageRules(), []rule{
		{"data", c.DataDir, c.DataDir != "", "name a folder"},
		{"metrics", c.Metrics, c.Metrics == "" || err == nil && metrics.Addr().IsLoopback(), "a loopback address with a port, such as 127.0.0.1:9464"},
		least("poll", c.Poll, time.Second, "at least 1s"),
		duration("statistics", c.Statistics, "10m, or 0"),
		duration("express", c.Express, "5m, or 0 for none"),
		duration("heartbeat", c.Heartbeat, "5m, or 0 for none"),
		bytes("memory.garbage", c.Memory.Garbage),
		bytes("memory.limit", c.Memory.Limit),
		bytes("disk.free", c.Disk.Free),
		bytes("disk.spool", c.Disk.Spool),
		least("batch.size", c.Batch.Size, 1, "a positive number of bytes"),
		{"batch.level", c.Batch.Level, c.Batch.Level >= 1 && c.Batch.Level <= 9, "1 to 9"},
		{"upload.by", c.Upload.By, c.Upload.By == "http" || c.Upload.By == "ftp", `"http" or "ftp"`},
		web("upload.url", c.Upload.URL, "http", "https"),
		positive("upload.poll", c.Upload.Poll, "1m"),
		positive("upload.back_off", c.Upload.BackOff, "10s"),
		least("tap.buffer", c.Tap.Buffer, 1, "a positive number of bytes"),
		{"tap.wait", c.Tap.Wait, c.Tap.Wait >= 0 && c.Tap.Wait <= time.Minute, "0s to 1m"},
		least("update.trial", c.Update.Trial, time.Second, "at least 1s"),
		web("network.proxy", c.Network.Proxy, "http", "https", "socks5"),
	}) {
		if !r.ok {
			refuse(r.key, r.value, errors.New("want "+r.want))
		}
	}
	return errors.Join(errs...)
}

// visitRules are about when and how often hosts are visited.
func (c *Config) visitRules() []rule {
	const day = 24 * time.Hour
	return []rule{
		duration("interval", c.Interval, "20s"),
		duration("watch.every", c.Watch.Every, "10m, or 0"),
		{"watch.share", c.Watch.Share, c.Watch.Share > 0 && c.Watch.Share <= 1, "a part of the whole, above 0 and up to 1"},
		least("run.pages", c.Run.Pages, 1, "at least 1"),
		positive("run.time", c.Run.Time, "1m"),
		duration("adapt.min", c.Adapt.Min, "5s, or 0"),
		duration("adapt.max", c.Adapt.Max, "2m, or 0"),
		least("limits.bandwidth", c.Limits.Bandwidth, 0, "bytes per second, or 0"),
		bytes("limits.daily", c.Limits.Daily),
		bytes("limits.monthly", c.Limits.Monthly),
		positive("network.relearn", c.Network.Relearn, "1h"),
		{"concurrency", c.Concurrency, c.Concurrency >= 1 && c.Concurrency <= 100_000, "1 to 100000"},
		least("cycle", c.Cycle, 0, "a duration, or 0 for one cycle a day"),
		{"revisit.at_least", c.Revisit.AtLeast, c.Revisit.AtLeast >= day && c.Revisit.AtLeast <= 60*day, "24h to 1440h"},
	}
}

// pageRules are about what is taken of a host.
func (c *Config) pageRules() []rule {
	p := &c.Page
	return []rule{
		{"page.max_bytes", p.MaxBytes, p.MaxBytes >= 1 && p.MaxBytes <= limits.MaxBody, fmt.Sprintf("1 to %d bytes: the service takes no longer page", int64(limits.MaxBody))},
		positive("page.timeout", p.Timeout, "10m"),
		positive("page.stall", p.Stall, "1m"),
		least("page.max_per_host", p.MaxPerHost, 1, "at least 1"),
		least("page.max_depth", p.MaxDepth, 0, "0 or more"),
		least("page.max_path", p.MaxPath, 1, "at least 1"),
		least("page.tries", p.Tries, 1, "at least 1"),
		duration("page.full", p.Full, "720h"),
		{"page.rules", p.Rules, p.Rules >= 0 && p.Rules <= MaxRules, "0s to 24h"},
		least("links.max", c.Links.Max, 1, "at least 1; links.record: false records none"),
		{"tls.verify", c.TLS.Verify, c.TLS.Verify == TLSRecord || c.TLS.Verify == TLSRefuse, `"record" or "refuse"`},
	}
}

// checkMaps checks the settings that have several values.
func (c *Config) checkMaps() error {
	var errs []error
	for _, u := range c.Manager {
		if !IsURL(u, "http", "https") {
			errs = append(errs, Wrong("manager", u, "want http or https URLs"))
		}
	}
	for _, host := range slices.Sorted(maps.Keys(c.NotBetween)) {
		if _, err := window.Parse(c.NotBetween[host]); err != nil {
			errs = append(errs, Wrong("not_between."+host, c.NotBetween[host], err.Error()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Network.Hosts)) {
		to := c.Network.Hosts[name]
		_, withPort := netip.ParseAddrPort(to)
		if _, err := netip.ParseAddr(to); err != nil && withPort != nil {
			errs = append(errs, Wrong("network.hosts."+name, to, "want an IP address, with or without a port"))
		}
	}
	return errors.Join(errs...)
}

// Wrong is the error for a setting's value.
func Wrong(key string, value any, why string) error {
	if value == "" {
		return fmt.Errorf("setting %s: %s", key, why)
	}
	return fmt.Errorf("setting %s: %v: %s", key, value, why)
}

// IsURL reports whether s is a URL with a host and one of the schemes.
func IsURL(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && slices.Contains(schemes, u.Scheme)
}
