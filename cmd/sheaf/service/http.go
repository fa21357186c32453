package service

import (
	"net"
	"net/url"

	"sheaf/internal/peer"
	"sheaf/internal/settings"
)

// HTTP is the settings of the HTTP server, for robots, consumers and operators.
type HTTP struct {
	Listen      string   `mapstructure:"listen"` // host:port
	Cert        string   `mapstructure:"cert"`   // PEM files; with both, HTTP is served over TLS
	Key         string   `mapstructure:"key"`
	Public      string   `mapstructure:"public"`      // URL under which robots reach the service; empty: Listen
	Connections int      `mapstructure:"connections"` // open at once; beyond that, idle ones are closed; 0: any number
	PerAddress  int      `mapstructure:"per_address"` // of them, loopback and proxies aside; 0: any number
	Proxies     []string `mapstructure:"proxies"`     // networks whose X-Forwarded-For and Forwarded are believed
}

// URL returns the address at which operators on this machine reach the service: Listen, with loopback
// instead of "all addresses".
func (h *HTTP) URL() string {
	scheme := "http"
	if h.Cert != "" {
		if h.Public != "" {
			return h.Public // the certificate's name
		}
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(h.Listen) // was checked
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

func (h *HTTP) check(is *settings.Checks) {
	is.Require(isAddress(h.Listen), "http.listen", h.Listen, wantAddress)
	requireBoth(is, "http.cert", h.Cert, "http.key", h.Key)
	u, err := url.Parse(h.Public)
	is.Require(h.Public == "" || err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https"), "http.public", h.Public,
		"want a URL, such as https://archive.example.jp")
	checkProxies(is, "http.proxies", h.Proxies)
}

// checkProxies checks a list of networks.
func checkProxies(is *settings.Checks, key string, list []string) {
	for _, text := range list {
		_, err := peer.ParseProxies([]string{text})
		is.Require(err == nil, key, text, "want a network, such as 192.0.2.0/24, or an address")
	}
}

// isAddress reports whether text is a host and a port.
func isAddress(text string) bool {
	_, _, err := net.SplitHostPort(text)
	return err == nil
}
