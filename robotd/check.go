package robotd

import (
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"sheaf/internal/limits"
	"sheaf/internal/window"
	"sheaf/internal/wire"
	"sheaf/robotd/polite"
	"sheaf/robotd/schedule"
)

// plan checks the settings and returns what must be parsed of them. An error
// names the setting and its value.
func (c *Config) plan() (schedule.Plan, error) {
	var p schedule.Plan
	var err error
	if p.Window, err = window.Parse(c.Window); err != nil {
		return p, wrong("window", c.Window, err.Error())
	}
	if p.LogAt, err = schedule.ParseClock(c.LogAt); err != nil {
		return p, wrong("log_at", c.LogAt, err.Error())
	}
	p.Every = c.Cycle
	return p, c.check()
}

// Check returns an error that names the setting that is wrong, where one is.
func (c *Config) Check() error {
	_, err := c.plan()
	return err
}

func (c *Config) check() error {
	if err := wire.CheckContact(c.Contact); err != nil {
		return wrong("contact", c.Contact, err.Error())
	}
	for _, s := range []struct {
		key   string
		value any
		bad   bool
		want  string
	}{
		{"data", c.DataDir, c.DataDir == "", "name a folder"},
		{"interval", c.Interval, c.Interval < 0, "a duration such as 20s"},
		{"watch.every", c.Watch.Every, c.Watch.Every < 0, "a duration such as 10m, or 0"},
		{"watch.share", c.Watch.Share, !(c.Watch.Share > 0 && c.Watch.Share <= 1), "a part of the whole, above 0 and up to 1"},
		{"run.pages", c.Run.Pages, c.Run.Pages < 1, "at least 1"},
		{"run.time", c.Run.Time, c.Run.Time <= 0, "a duration such as 1m"},
		{"adapt.min", c.Adapt.Min, c.Adapt.Min < 0, "a duration such as 5s, or 0"},
		{"adapt.max", c.Adapt.Max, c.Adapt.Max < 0, "a duration such as 2m, or 0"},
		{"limits.bandwidth", c.Limits.Bandwidth, c.Limits.Bandwidth < 0, "bytes per second, or 0"},
		{"limits.daily", c.Limits.Daily, c.Limits.Daily < 0, "bytes, or 0"},
		{"limits.monthly", c.Limits.Monthly, c.Limits.Monthly < 0, "bytes, or 0"},
		{"memory.garbage", c.Memory.Garbage, c.Memory.Garbage < 0, "bytes, or 0"},
		{"memory.limit", c.Memory.Limit, c.Memory.Limit < 0, "bytes, or 0"},
		{"disk.free", c.Disk.Free, c.Disk.Free < 0, "bytes, or 0"},
		{"disk.spool", c.Disk.Spool, c.Disk.Spool < 0, "bytes, or 0"},
		{"page.stall", c.Page.Stall, c.Page.Stall <= 0, "a duration such as 1m"},
		{"network.relearn", c.Network.Relearn, c.Network.Relearn <= 0, "a duration such as 1h"},
		{"concurrency", c.Concurrency, c.Concurrency < 1 || c.Concurrency > 100_000, "1 to 100000"},
		{"cycle", c.Cycle, c.Cycle < 0, "a duration, or 0 for one cycle a day"},
		{"poll", c.Poll, c.Poll < time.Second, "at least 1s"},
		{"statistics", c.Statistics, c.Statistics < 0, "a duration such as 10m, or 0"},
		{"metrics", c.Metrics, !loopback(c.Metrics), "a loopback address with a port, such as 127.0.0.1:9464"},
		{"express", c.Express, c.Express < 0, "a duration such as 5m, or 0 for none"},
		{"heartbeat", c.Heartbeat, c.Heartbeat < 0, "a duration such as 5m, or 0 for none"},
		{"page.max_bytes", c.Page.MaxBytes, c.Page.MaxBytes < 1 || c.Page.MaxBytes > limits.MaxBody, fmt.Sprintf("1 to %d bytes: the service takes no longer page", int64(limits.MaxBody))},
		{"page.timeout", c.Page.Timeout, c.Page.Timeout <= 0, "a duration such as 10m"},
		{"page.max_per_host", c.Page.MaxPerHost, c.Page.MaxPerHost < 1, "at least 1"},
		{"links.max", c.Links.Max, c.Links.Max < 1, "at least 1; links.record: false records none"},
		{"page.max_depth", c.Page.MaxDepth, c.Page.MaxDepth < 0, "0 or more"},
		{"page.max_path", c.Page.MaxPath, c.Page.MaxPath < 1, "at least 1"},
		{"page.tries", c.Page.Tries, c.Page.Tries < 1, "at least 1"},
		{"page.full", c.Page.Full, c.Page.Full < 0, "a duration such as 720h"},
		{"revisit.at_least", c.Revisit.AtLeast, c.Revisit.AtLeast < 24*time.Hour || c.Revisit.AtLeast > 60*24*time.Hour, "24h to 1440h"},
		{"page.rules", c.Page.Rules, c.Page.Rules < 0 || c.Page.Rules > maxRules, "0s to 24h"},
		{"tls.verify", c.TLS.Verify, c.TLS.Verify != TLSRecord && c.TLS.Verify != TLSRefuse, `"record" or "refuse"`},
		{"batch.size", c.Batch.Size, c.Batch.Size < 1, "a positive number of bytes"},
		{"batch.level", c.Batch.Level, c.Batch.Level < 1 || c.Batch.Level > 9, "1 to 9"},
		{"upload.by", c.Upload.By, c.Upload.By != "http" && c.Upload.By != "ftp", `"http" or "ftp"`},
		{"upload.poll", c.Upload.Poll, c.Upload.Poll <= 0, "a duration such as 1m"},
		{"upload.back_off", c.Upload.BackOff, c.Upload.BackOff <= 0, "a duration such as 10s"},
		{"tap.buffer", c.Tap.Buffer, c.Tap.Buffer < 1, "a positive number of bytes"},
		{"tap.wait", c.Tap.Wait, c.Tap.Wait < 0 || c.Tap.Wait > time.Minute, "0s to 1m"},
		{"update.trial", c.Update.Trial, c.Update.Trial < time.Second, "at least 1s"},
		{"upload.url", c.Upload.URL, !optionalURL(c.Upload.URL, "http", "https"), "an http or https URL"},
		{"network.proxy", c.Network.Proxy, !optionalURL(c.Network.Proxy, "http", "https", "socks5"), "an http, https or socks5 URL"},
	} {
		if s.bad {
			return wrong(s.key, s.value, "want "+s.want)
		}
	}
	for _, u := range c.Manager {
		if u == "" || !optionalURL(u, "http", "https") {
			return wrong("manager", u, "want http or https URLs")
		}
	}
	if _, err := polite.Ranges(c.Network.Ranges); err != nil {
		return wrong("network.ranges", c.Network.Ranges, err.Error())
	}
	if _, err := netip.ParseAddrPort(c.Network.Resolver); err != nil && c.Network.Resolver != "" {
		return wrong("network.resolver", c.Network.Resolver, "want an IP address with a port")
	}
	if err := schedule.Rule(c.Revisit.By).Check(); err != nil {
		return wrong("revisit.by", c.Revisit.By, err.Error())
	}
	for host, text := range c.NotBetween {
		if _, err := window.Parse(text); err != nil {
			return wrong("not_between."+host, text, err.Error())
		}
	}
	for name, to := range c.Network.Hosts {
		if _, err := netip.ParseAddrPort(to); err == nil {
			continue
		}
		if _, err := netip.ParseAddr(to); err != nil {
			return wrong("network.hosts."+name, to, "want an IP address, with or without a port")
		}
	}
	return nil
}

func wrong(key string, value any, why string) error {
	if value == "" {
		return fmt.Errorf("setting %s: %s", key, why)
	}
	return fmt.Errorf("setting %s: %v: %s", key, value, why)
}

// loopback reports whether addr is of this machine alone, or empty.
func loopback(addr string) bool {
	if addr == "" {
		return true
	}
	a, err := netip.ParseAddrPort(addr)
	return err == nil && a.Addr().IsLoopback()
}

func optionalURL(s string, schemes ...string) bool {
	if s == "" {
		return true
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return false
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme {
			return true
		}
	}
	return false
}

// userAgent names the robot in every request.
func (c *Config) userAgent() string {
	return fmt.Sprintf("sheaf-robotd/%s (+%s)", Version, c.Contact)
}
