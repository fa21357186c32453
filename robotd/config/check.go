package config

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"sheaf/internal/settings"
	"sheaf/internal/window"
	"sheaf/internal/wire"
)

// Plan checks the settings and returns the parsed form of those about time. The error names every
// setting that cannot be used.
func (c *Config) Plan() (p Plan, err error) {
	var is settings.Checks
	parsed := func(key, text string, err error) { is.Require(err == nil, key, text, fmt.Sprint(err)) }
	p.Every = c.Cycle
	p.Window, err = window.Parse(c.Window)
	parsed("window", c.Window, err)
	p.LogAt, err = ParseClock(c.LogAt)
	parsed("log_at", c.LogAt, err)
	parsed("contact", c.Contact, wire.CheckContact(c.Contact))
	_, err = Ranges(c.Network.Ranges)
	parsed("network.ranges", fmt.Sprint(c.Network.Ranges), err)
	for _, host := range slices.Sorted(maps.Keys(c.NotBetween)) {
		_, err := window.Parse(c.NotBetween[host])
		parsed("not_between."+host, c.NotBetween[host], err)
	}
	is.Fields(c)
	is.Require(c.For == 0 || c.For > 0 && c.Once, "for", c.For, "want a duration such as 2h, together with once")
	is.Require(c.Page.MaxBytes <= wire.MaxBody, "page.max_bytes", c.Page.MaxBytes, fmt.Sprintf("want at most %d: the service takes no longer page", int64(wire.MaxBody)))
	c.checkAddresses(&is)
	return p, is.Err()
}

// Check returns an error that names every setting that cannot be used, or nil.
func (c *Config) Check() error {
	_, err := c.Plan()
	return err
}

func (c *Config) checkAddresses(is *settings.Checks) {
	is.Require(c.DataDir != "", "data", c.DataDir, "want a folder")
	metrics, err := netip.ParseAddrPort(c.Metrics)
	is.Require(c.Metrics == "" || err == nil && metrics.Addr().IsLoopback(), "metrics", c.Metrics, "want a loopback address with a port, such as 127.0.0.1:9464")
	for _, u := range c.Manager {
		is.Require(settings.IsURL(u, "http", "https"), "manager", u, "want http or https URLs")
	}
	for _, u := range c.Upload.Targets {
		is.Require(u == HTTP || u == FTP || settings.IsURL(u, "http", "https", "ftp", "ftps"), "upload.targets", u, "want http, ftp, or http, https, ftp or ftps URLs")
	}
	_, err = netip.ParseAddrPort(c.Network.Resolver)
	is.Require(err == nil || c.Network.Resolver == "", "network.resolver", c.Network.Resolver, "want an IP address with a port")
	for _, name := range slices.Sorted(maps.Keys(c.Network.Hosts)) {
		to := c.Network.Hosts[name]
		_, err := ParseAddresses(to)
		is.Require(err == nil, "network.hosts."+name, to, "want an IP address, with or without a port, or several with blanks between")
	}
}
