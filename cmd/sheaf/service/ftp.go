package service

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"sheaf/internal/ftp"
	"sheaf/internal/peer"
	"sheaf/internal/settings"
	"sheaf/serve"
)

// FTP is the settings that both FTP servers share.
type FTP struct {
	Listen  string   `mapstructure:"listen" want:"host:port, or nothing"` // empty: no such server
	Public  string   `mapstructure:"public"`                              // IPv4 address that passive mode announces; empty: the local one
	Ports   []int    `mapstructure:"ports"`                               // first and last port of passive mode; 0 and 0: any
	Cert    string   `mapstructure:"cert"`                                // PEM file; Cert and Key offer AUTH TLS; empty: those of tls
	Key     string   `mapstructure:"key"`
	Proxies []string `mapstructure:"proxies"` // networks whose connections must begin with a PROXY header
}

// check checks the settings of the server whose section is key.
func (f *FTP) check(is *settings.Checks, key string) {
	is.Require(f.Public == "" || net.ParseIP(f.Public).To4() != nil, key+".public", f.Public, "want an IPv4 address")
	is.Require(len(f.Ports) == 2 && 0 <= f.Ports[0] && f.Ports[0] <= f.Ports[1] && f.Ports[1] <= 65535, key+".ports", f.Ports,
		"want the first and the last port, such as [50000, 50999]")
	is.RequireBoth(key+".cert", f.Cert, key+".key", f.Key)
	checkProxies(is, key+".proxies", f.Proxies)
}

// server returns the configuration of a server with these settings. secure is its TLS, or nil.
func (f *FTP) server(l net.Listener, secure *tls.Config, stop time.Duration, log *slog.Logger) (c ftp.Config, err error) {
	c = ftp.Config{Listener: l, PassivePorts: [2]int(f.Ports), TLS: secure, StopTimeout: max(stop, time.Millisecond), Log: log}
	if f.Public != "" {
		c.PublicIP = netip.MustParseAddr(f.Public)
	}
	c.Proxies, err = peer.ParseProxies(f.Proxies)
	return c, err
}

// Download is the settings of the FTP server for consumers.
type Download struct {
	FTP         `mapstructure:",squash"`
	Implicit    string `mapstructure:"implicit" want:"host:port, or nothing"` // host:port at which clients begin with TLS; empty: nowhere
	RequireTLS  bool   `mapstructure:"require_tls"`                           // for passwords and data
	Connections int    `mapstructure:"connections" want:"above 0"`            // at once
	PerAddress  int    `mapstructure:"per_address" want:"above 0"`            // of these, from one address (of IPv6, a /64 network)
	PerAccount  int    `mapstructure:"per_account" want:"above 0"`            // of these, of one account
}

// check checks the settings. shared reports whether section tls has a certificate.
func (d *Download) check(is *settings.Checks, shared bool) {
	d.FTP.check(is, "download")
	is.Require(!d.RequireTLS || d.Cert != "" || shared, "download.require_tls", d.RequireTLS, "needs download.cert or tls.cert")
	is.Require(d.Implicit == "" || d.Listen != "", "download.implicit", d.Implicit, "needs download.listen; with download.require_tls that serves no clear text either")
	is.Require(d.Implicit == "" || d.Cert != "" || shared, "download.implicit", d.Implicit, "needs download.cert or tls.cert")
}

// server returns the configuration of the server for consumers.
func (d *Download) server(l net.Listener, secure *tls.Config, of *serve.Settings, stop time.Duration, log *slog.Logger) (ftp.Config, error) {
	c, err := d.FTP.server(l, secure, stop, log)
	c.Greeting, c.Contact, c.RequireTLS = of.Site.Name, of.Access.Contact, d.RequireTLS
	c.MaxConns, c.MaxPerAddr, c.MaxPerAccount = d.Connections, d.PerAddress, d.PerAccount
	return c, err
}

// Drop is the settings of the FTP server for robots' batches.
type Drop struct {
	FTP    `mapstructure:",squash"`
	Quiet  time.Duration `mapstructure:"quiet" want:"at least 0s"` // a file without a manifest is read after this time without a new byte; 0: never
	CutOff time.Duration `mapstructure:"cut_off"`                  // such a file is quarantined if it is incomplete for so long
	Hosts  string        `mapstructure:"hosts"`                    // file with lines of a directory and its host; empty: none
}

func (d *Drop) check(is *settings.Checks) {
	d.FTP.check(is, "drop")
	is.Require(d.CutOff > 0 && d.CutOff >= d.Quiet, "drop.cut_off", d.CutOff, "must be above 0 and not less than drop.quiet")
}
