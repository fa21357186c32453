package service

import (
	"net"
	"net/url"

	"sheaf/internal/peer"
)

// HTTP is the settings of robots' and consumers' HTTP.
type HTTP struct {
	// Listen is the address of robots' and consumers' HTTP.
	Listen string `mapstructure:"listen"`
	// Cert and Key are PEM files; with them HTTP is served over TLS.
	Cert string `mapstructure:"cert"`
	Key  string `mapstructure:"key"`
	// Public is the URL under which robots reach the service, where that is not Listen.
	Public string `mapstructure:"public"`
	// Connections is how many connections may be open at once; beyond that those
	// that are idle go. 0: any number.
	Connections int `mapstructure:"connections"`
	// PerAddress is how many of them may come from one address, loopback
	// aside; 0: any number.
	PerAddress int `mapstructure:"per_address"`
	// Proxies are the networks, such as [127.0.0.1, 192.0.2.0/24], of the proxies that are believed
	// about their clients' addresses (X-Forwarded-For, Forwarded). Others' headers are not looked at.
	Proxies []string `mapstructure:"proxies"`
}

// URL returns an address at which operators on this machine reach the service: Listen's, with loopback in
// place of "all addresses".
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

// check names the settings that cannot be.
func (h *HTTP) check(bad func(key string, value any, why string) error) (errs []error) {
	if !isAddress(h.Listen) {
		errs = append(errs, bad("http.listen", h.Listen, noAddress))
	}
	if (h.Cert == "") != (h.Key == "") {
		errs = append(errs, bad("http.cert", h.Cert, "needs http.key, and the other way round"))
	}
	if u, err := url.Parse(h.Public); h.Public != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, bad("http.public", h.Public, "is no URL, such as https://archive.example.jp"))
	}
	return append(errs, checkProxies("http.proxies", h.Proxies, bad)...)
}

// checkProxies names what of a list of networks is none.
func checkProxies(key string, list []string, bad func(key string, value any, why string) error) (errs []error) {
	for _, text := range list {
		if _, err := peer.ParseProxies([]string{text}); err != nil {
			errs = append(errs, bad(key, text, "is no network such as 192.0.2.0/24 and no address"))
		}
	}
	return errs
}

const noAddress = "is no address, such as 0.0.0.0:8080"

// isAddress reports whether text is a host and a port.
func isAddress(text string) bool {
	_, _, err := net.SplitHostPort(text)
	return err == nil
}
