package service

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"sheaf/internal/certs"
	"sheaf/internal/metrics"
	"sheaf/internal/peer"
	"sheaf/internal/problem"
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

// TLS is the settings of the certificate for all servers without a certificate of their own.
type TLS struct {
	Cert string        `mapstructure:"cert"` // PEM files
	Key  string        `mapstructure:"key"`
	ACME ACME          `mapstructure:"acme"`
	HSTS time.Duration `mapstructure:"hsts" want:"at least 0s"` // how long browsers must use only https; 0: they are not told
}

// ACME is the settings of certificates that the service gets and renews by itself.
type ACME struct {
	Names     []string `mapstructure:"names"`     // each gets a certificate of its own; empty: the service gets none
	Email     string   `mapstructure:"email"`     // for the authority's warnings
	Directory string   `mapstructure:"directory"` // the authority's URL
	CA        string   `mapstructure:"ca"`        // PEM file of the certificate authorities that the authority's server is checked against; empty: the system's
}

func (t *TLS) check(is *settings.Checks) {
	is.RequireBoth("tls.cert", t.Cert, "tls.key", t.Key)
	a := &t.ACME
	for _, name := range a.Names {
		is.Require(strings.Contains(name, ".") && !strings.ContainsAny(name, ":/* ") && net.ParseIP(name) == nil, "tls.acme.names", name, "want names of this service, such as archive.example.jp")
	}
	is.Require(len(a.Names) == 0 || t.Cert == "", "tls.acme.names", a.Names, "and tls.cert is given too; remove one of them")
	u, err := url.Parse(a.Directory)
	is.Require(err == nil && u.Scheme == "https" && u.Host != "", "tls.acme.directory", a.Directory, "want an https URL, such as "+defaultDirectory)
	is.Require(a.Email == "" || strings.Contains(a.Email, "@"), "tls.acme.email", a.Email, "want a mail address")
}

// given reports whether the settings name a certificate.
func (t *TLS) given() bool { return t.Cert != "" || len(t.ACME.Names) > 0 }

// defaultDirectory is the URL of Let's Encrypt.
const defaultDirectory = "https://acme-v02.api.letsencrypt.org/directory"

// source returns a source of certificates by ACME, with these settings.
func (a *ACME) source(control *sql.DB, every time.Duration, log *slog.Logger) (certs.Source, error) {
	roots, err := certs.Pool(a.CA)
	if err != nil {
		return nil, fmt.Errorf("settings: tls.acme.ca: %w", err)
	}
	return certs.NewACME(certs.Options{Names: a.Names, Email: a.Email, Directory: a.Directory, Roots: roots, DB: control, Every: every, Log: log}), nil
}

// maxCertificateLook is the longest time between two looks at the files of certificates.
const maxCertificateLook = 10 * time.Second

// certificates are the servers' certificates. Several servers may share one. A server without a
// certificate speaks no TLS.
type certificates struct {
	of  map[string]certs.Source // by the server's section of the settings
	all []certs.Source          // each once
}

// open reads the certificates that the settings name.
func (c *certificates) open(cfg *Config, control *sql.DB, log *slog.Logger) (err error) {
	var shared certs.Source
	every := min(cfg.Poll, maxCertificateLook)
	if len(cfg.TLS.ACME.Names) > 0 {
		shared, err = cfg.TLS.ACME.source(control, every, log)
	} else if cfg.TLS.Cert != "" {
		shared, err = certs.Open("tls", cfg.TLS.Cert, cfg.TLS.Key, every, log)
	}
	if err != nil {
		return err
	}
	c.of = make(map[string]certs.Source)
	use := func(section string, source certs.Source) {
		c.of[section] = source
		if source != nil && !slices.Contains(c.all, source) {
			c.all = append(c.all, source)
		}
	}
	use("tls", shared)
	for _, server := range []struct{ section, cert, key string }{
		{"http", cfg.HTTP.Cert, cfg.HTTP.Key},
		{"download", cfg.Download.Cert, cfg.Download.Key},
		{"drop", cfg.Drop.Cert, cfg.Drop.Key},
	} {
		own := shared
		if server.cert != "" {
			if own, err = certs.Open(server.section, server.cert, server.key, every, log); err != nil {
				return err
			}
		}
		use(server.section, own)
	}
	return nil
}

// web returns the TLS configuration of the web server, or nil. Only this server answers ACME
// challenges.
func (c *certificates) web() *tls.Config {
	config := tlsConfig(c.of["http"])
	if _, ok := c.of["http"].(*certs.ACME); ok {
		config.NextProtos = []string{"h2", "http/1.1", certs.ALPN}
	}
	return config
}

// tlsConfig returns the configuration of a server with the certificate of s, or nil if s is nil.
func tlsConfig(s certs.Source) *tls.Config {
	if s == nil {
		return nil
	}
	return certs.Config(s)
}

// check returns an error if a certificate cannot be replaced, or if clients will refuse it.
func (c *certificates) check(context.Context) error {
	var errs []error
	for _, source := range c.all {
		if state := source.State(); state.Err != nil {
			problem := "there is no certificate; the service's log says why"
			switch {
			case len(state.Missing) > 0:
				problem = fmt.Sprintf("there is no certificate of %s; the service's log says why", strings.Join(state.Missing, ", "))
			case !state.NotAfter.IsZero():
				problem = fmt.Sprintf("the certificate expires at %s, and there is no good new one; the service's log says why", state.NotAfter.UTC().Format(time.RFC3339))
			}
			errs = append(errs, state.Err, advice(state.Setting+": "+problem))
		}
	}
	return errors.Join(errs...)
}

// metrics returns the source of the certificates' expiry times.
func (c *certificates) metrics() metrics.Source {
	return metrics.Source{Name: "certificates", Ask: func(_ context.Context, out *metrics.Out) error {
		for _, source := range c.all {
			if state := source.State(); !state.NotAfter.IsZero() {
				out.Gauge("certificate_remaining_seconds", "Time until the certificate that is served expires, by the setting that names it. It is negative afterwards.",
					time.Until(state.NotAfter).Seconds(), "setting", state.Setting)
			}
		}
		return nil
	}}
}

// strictTransport tells browsers that come by TLS to use only TLS for the time age (RFC 6797).
func strictTransport(age time.Duration, next http.Handler) http.Handler {
	if age == 0 {
		return next
	}
	value := fmt.Sprintf("max-age=%d", int64(age.Seconds()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", value)
		}
		next.ServeHTTP(w, r)
	})
}

// requestIDs gives each request an ID, and sends it in a header of the answer. A trusted proxy may
// choose the ID (see peer.Proxied), in X-Request-Id or as the trace ID of traceparent (W3C Trace
// Context, 3.2). An ID from any other client, or a malformed ID, is replaced.
func requestIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var id string
		if peer.Proxied(r.Context()) {
			id = given(r.Header)
		}
		if id == "" {
			id = peer.NewID()
		}
		w.Header().Set(problem.HeaderRequest, id)
		next.ServeHTTP(w, r.WithContext(peer.WithRequest(r.Context(), id)))
	})
}

var (
	wellFormed = regexp.MustCompile(`^[A-Za-z0-9._:/+=@-]{1,128}$`)
	traceID    = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$`)
)

// given returns the ID in the headers of a request, or "" if the ID is missing or malformed. A
// header that comes twice does not count: one of the two may be the client's own.
func given(h http.Header) string {
	if ids := h.Values(problem.HeaderRequest); len(ids) > 0 {
		if len(ids) == 1 && wellFormed.MatchString(ids[0]) {
			return ids[0]
		}
		return ""
	}
	parents := h.Values("Traceparent")
	if len(parents) != 1 {
		return ""
	}
	m := traceID.FindStringSubmatch(parents[0])
	if m == nil || strings.HasPrefix(parents[0], "ff") || strings.Trim(m[1], "0") == "" {
		return ""
	}
	return m[1]
}

// sendRequestID returns a transport that sends each request's ID along.
func sendRequestID(next http.RoundTripper) http.RoundTripper { return sender{next} }

type sender struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	if id := peer.Request(r.Context()); id != "" {
		r = r.Clone(r.Context()) // a transport must not change the request that it is given
		r.Header.Set(problem.HeaderRequest, id)
	}
	return s.next.RoundTrip(r)
}
