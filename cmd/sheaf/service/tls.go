package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"sheaf/internal/certs"
	"sheaf/internal/metrics"
	"sheaf/internal/settings"
)

// TLS is the settings of the certificate that all servers share which have none of their own.
type TLS struct {
	Cert string        `mapstructure:"cert"` // PEM files
	Key  string        `mapstructure:"key"`
	HSTS time.Duration `mapstructure:"hsts"` // for which browsers shall use nothing but https; 0: not said
}

func (t *TLS) check(is *settings.Checks) {
	requireBoth(is, "tls.cert", t.Cert, "tls.key", t.Key)
	is.Require(t.HSTS >= 0, "tls.hsts", t.HSTS, wantNatural)
}

// given reports whether there is such a certificate.
func (t *TLS) given() bool { return t.Cert != "" }

// maxCertificateLook is the longest time between two looks at the files of certificates.
const maxCertificateLook = 10 * time.Second

// certificates are those of the servers. Several servers may have the same. nil: the server speaks
// no TLS.
type certificates struct {
	http, download, drop certs.Source
	all                  []certs.Source // each once
}

// open reads the certificates that the settings name.
func (c *certificates) open(cfg *Config, log *slog.Logger) error {
	var shared certs.Source
	every := min(cfg.Poll, maxCertificateLook)
	if cfg.TLS.Cert != "" {
		files, err := certs.Open("tls", cfg.TLS.Cert, cfg.TLS.Key, every, log)
		if err != nil {
			return err
		}
		shared = files
		c.all = append(c.all, shared)
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
		c.all = append(c.all, files)
	}
	return nil
}

// tlsConfig returns the configuration of a server with the certificate of s, or nil if s is nil.
func tlsConfig(s certs.Source) *tls.Config {
	if s == nil {
		return nil
	}
	return certs.Config(s)
}

// check returns an error if a certificate cannot be replaced, or if clients refuse it.
func (c *certificates) check(context.Context) error {
	var errs []error
	for _, source := range c.all {
		if state := source.State(); state.Err != nil {
			errs = append(errs, state.Err, advice(fmt.Sprintf("the certificate of %s expires at %s, and another cannot be had; the service's log says why",
				state.Setting, state.NotAfter.UTC().Format(time.RFC3339))))
		}
	}
	return errors.Join(errs...)
}

// metrics tells when certificates expire.
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

// strictTransport tells browsers that come by TLS to use nothing else for the time age (RFC 6797).
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
