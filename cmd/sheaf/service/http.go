package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"sheaf/internal/peer"
	"sheaf/internal/settings"
	"sheaf/internal/stream"
	"sheaf/serve/httpd/guard"
)

// HTTP is the settings of the HTTP server, for robots, consumers and operators.
type HTTP struct {
	Listen      string   `mapstructure:"listen" want:"host:port"` // host:port
	Cert        string   `mapstructure:"cert"`                    // PEM file; with Cert and Key, HTTP is served over TLS; empty: those of tls
	Key         string   `mapstructure:"key"`
	Public      string   `mapstructure:"public" want:"http or https URL, or nothing"` // the URL at which robots reach the service; empty: Listen
	Connections int      `mapstructure:"connections" want:"at least 0"`               // open at once; beyond that, idle ones are closed; 0: any number
	PerAddress  int      `mapstructure:"per_address" want:"at least 0"`               // of these, from one address except loopback and proxies; 0: any number
	Proxies     []string `mapstructure:"proxies"`                                     // networks whose X-Forwarded-For and Forwarded are believed
	Redirect    struct {
		At int64 `mapstructure:"at" want:"at least 0"` // size from which on clients fetch whole objects from the store, in bytes; 0: none
	} `mapstructure:"redirect"`
}

// URL returns the address at which operators on this machine reach the service: Public if it is set
// and the service speaks TLS, otherwise Listen, with loopback instead of "all addresses".
func (c *Config) URL() string {
	h := &c.HTTP
	if c.secure() && h.Public != "" {
		return h.Public // the certificate has this name
	}
	host, port, _ := net.SplitHostPort(h.Listen) // it was checked
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return c.scheme() + "://" + net.JoinHostPort(host, port)
}

// secure reports whether HTTP is served over TLS.
func (c *Config) secure() bool { return c.HTTP.Cert != "" || c.TLS.given() }

// scheme returns the scheme of the service's own URLs.
func (c *Config) scheme() string {
	if c.secure() {
		return "https"
	}
	return "http"
}

func (h *HTTP) check(is *settings.Checks) {
	is.RequireBoth("http.cert", h.Cert, "http.key", h.Key)
	checkProxies(is, "http.proxies", h.Proxies)
}

// checkProxies checks that each text in a list is a network or an address.
func checkProxies(is *settings.Checks, key string, list []string) {
	for _, text := range list {
		_, err := peer.ParseProxies([]string{text})
		is.Require(err == nil, key, text, "want a network, such as 192.0.2.0/24, or an address")
	}
}

// Limits for HTTP clients. Each room limits the speed of bodies itself.
const (
	headerTime = 20 * time.Second // for the whole header of a request; for the first one, since the connection began
	idleTime   = 2 * time.Minute  // between two requests
	maxHeader  = 64 << 10         // bytes; net/http allows 4 KiB more
)

// httpServer returns a server of h. If a client comes through one of the proxies, h sees the
// client's address instead of the proxy's. Each request gets an ID.
func httpServer(limits peer.Limits, proxies peer.Proxies, h http.Handler, log *slog.Logger) *http.Server {
	limits.Unbounded = proxies.Trust
	return &http.Server{
		Handler:           guard.CloseAfterChunks(proxies.Handler(requestIDs(h))),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ConnState:         peer.NewGuard(limits).ConnState,
		ConnContext:       stream.ConnContext,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// serve serves handler until ctx ends. Running requests may then take as long as stop to finish.
// With secure it speaks TLS, and HTTP/2 with clients that can.
func (h *HTTP) serve(ctx context.Context, l net.Listener, secure *tls.Config, handler http.Handler, stop time.Duration, log *slog.Logger) error {
	proxies, err := peer.ParseProxies(h.Proxies)
	if err != nil {
		return err
	}
	server := httpServer(peer.Limits{Total: h.Connections, PerAddress: h.PerAddress}, proxies, handler, log)
	stopped := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		bounded, cancel := context.WithTimeout(context.Background(), stop)
		defer cancel()
		err := peer.Shutdown(bounded, server)
		if err != nil {
			log.WarnContext(ctx, "http: transfers were cut at the stop", "err", err)
			err = server.Close()
		}
		stopped <- err
	})()
	l = stream.Listener(l)
	if secure != nil {
		server.TLSConfig = secure
		err = server.ServeTLS(l, "", "")
	} else {
		err = server.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return <-stopped
	}
	return fmt.Errorf("http: %w", err)
}
