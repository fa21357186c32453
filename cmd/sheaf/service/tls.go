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
	"slices"
	"strings"
	"time"

	"sheaf/internal/certs"
	"sheaf/internal/metrics"
	"sheaf/internal/settings"
)

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
	http, download, drop certs.Source
	all                  []certs.Source // each once
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
	for _, server := range []struct {
		section, cert, key string
		to                 *certs.Source
	}{
		{"http", cfg.HTTP.Cert, cfg.HTTP.Key, &c.http},
		{"download", cfg.Download.Cert, cfg.Download.Key, &c.download},
		{"drop", cfg.Drop.Cert, cfg.Drop.Key, &c.drop},
	} {
		*server.to = shared
		if server.cert == "" {
			continue
		}
		files, err := certs.Open(server.section, server.cert, server.key, every, log)
		if err != nil {
			return err
		}
		*server.to = files
	}
	for _, source := range []certs.Source{shared, c.http, c.download, c.drop} {
		if source != nil && !slices.Contains(c.all, source) {
			c.all = append(c.all, source)
		}
	}
	return nil
}

// web returns the TLS configuration of the web server, or nil. Only this server answers ACME
// challenges.
func (c *certificates) web() *tls.Config {
	config := tlsConfig(c.http)
	if _, ok := c.http.(*certs.ACME); ok {
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
