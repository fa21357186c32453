package service

import (
	"net"
	"time"
)

// FTP is one FTP listener's settings.
type FTP struct {
	// Listen is the control connection's address; empty: no such server.
	Listen string `mapstructure:"listen"`
	// Public is the IPv4 address that passive mode announces, where it is not the local one.
	Public string `mapstructure:"public"`
	// Ports is the passive mode's range, such as [50000, 50999]; [0, 0]: any.
	Ports []int `mapstructure:"ports"`
	// Cert and Key are PEM files; with them clients may use AUTH TLS.
	Cert string `mapstructure:"cert"`
	Key  string `mapstructure:"key"`
	// Proxies are the networks, such as [192.0.2.0/24], of proxies that begin each connection with a
	// PROXY header, which says who the client is. One of theirs without it is closed.
	Proxies []string `mapstructure:"proxies"`
}

// check names the settings of the listener key that cannot be.
func (f *FTP) check(key string, bad func(key string, value any, why string) error) (errs []error) {
	if f.Listen != "" && !isAddress(f.Listen) {
		errs = append(errs, bad(key+".listen", f.Listen, noAddress))
	}
	if f.Public != "" && net.ParseIP(f.Public).To4() == nil {
		errs = append(errs, bad(key+".public", f.Public, "is no IPv4 address"))
	}
	if len(f.Ports) != 2 || f.Ports[0] < 0 || f.Ports[0] > f.Ports[1] || f.Ports[1] > 65535 {
		errs = append(errs, bad(key+".ports", f.Ports, "is no range of ports, such as [50000, 50999]"))
	}
	if (f.Cert == "") != (f.Key == "") {
		errs = append(errs, bad(key+".cert", f.Cert, "needs "+key+".key, and the other way round"))
	}
	return append(errs, checkProxies(key+".proxies", f.Proxies, bad)...)
}

// Download is the settings of the FTP listener for consumers.
type Download struct {
	FTP `mapstructure:",squash"`
	// Greeting is the first line that clients see; empty: a plain one.
	Greeting string `mapstructure:"greeting"`
	// RequireTLS refuses passwords and data in clear text.
	RequireTLS bool `mapstructure:"require_tls"`
	// Active is whether data connections may be made by the server, to the client's own address (PORT, EPRT).
	Active bool `mapstructure:"active"`
	// Idle is how long a client may be silent between two commands.
	Idle time.Duration `mapstructure:"idle"`
	// DataTimeout is how long a data connection may take to open, or stand still.
	DataTimeout time.Duration `mapstructure:"data_timeout"`
	// Connections is how many there may be at once; of them PerAddress from one
	// address (of IPv6, a /64 network) and PerAccount of one account.
	Connections int `mapstructure:"connections"`
	PerAddress  int `mapstructure:"per_address"`
	PerAccount  int `mapstructure:"per_account"`
}

// check names the settings that cannot be.
func (d *Download) check(bad func(key string, value any, why string) error) (errs []error) {
	errs = d.FTP.check("download", bad)
	if d.RequireTLS && d.Cert == "" {
		errs = append(errs, bad("download.require_tls", d.RequireTLS, "needs download.cert"))
	}
	for key, v := range map[string]time.Duration{"idle": d.Idle, "data_timeout": d.DataTimeout} {
		if v <= 0 {
			errs = append(errs, bad("download."+key, v, "is not positive"))
		}
	}
	for key, n := range map[string]int{"connections": d.Connections, "per_address": d.PerAddress, "per_account": d.PerAccount} {
		if n <= 0 {
			errs = append(errs, bad("download."+key, n, "is not positive"))
		}
	}
	return errs
}

// Drop is the settings of the FTP listener for batches.
type Drop struct {
	FTP `mapstructure:",squash"`
	// Quiet is after how long without a byte a file without manifest is read and,
	// if it is a whole batch, taken; 0: never, every batch needs its manifest.
	Quiet time.Duration `mapstructure:"quiet"`
	// CutOff is how long such a file may stay cut off before it is put into the
	// quarantine, where its name is not a batch's, which a robot may still go on with.
	CutOff time.Duration `mapstructure:"cut_off"`
	// Hosts is a file with the hosts of directories in the trees that old robots
	// send, where the directories are not called by them: lines of directory and host; empty: there are none.
	Hosts string `mapstructure:"hosts"`
}

// check names the settings that cannot be.
func (d *Drop) check(bad func(key string, value any, why string) error) (errs []error) {
	errs = d.FTP.check("drop", bad)
	if d.Quiet < 0 {
		errs = append(errs, bad("drop.quiet", d.Quiet, "is negative"))
	}
	if d.CutOff <= 0 || d.CutOff < d.Quiet {
		errs = append(errs, bad("drop.cut_off", d.CutOff, "is not positive, or is less than drop.quiet"))
	}
	return errs
}
