package service

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"sheaf/internal/durable"
	"sheaf/internal/lease"
	"sheaf/internal/settings"
)

// Kinds of leases.
const (
	leaseDatabase = "database"
	leaseEtcd     = "etcd"
)

// Lease is the settings by which several processes agree on who does what only one may do.
type Lease struct {
	Kind string        `mapstructure:"kind"` // leaseDatabase or leaseEtcd
	TTL  time.Duration `mapstructure:"ttl"`  // of silence, after which a process loses its lease
	Etcd Etcd          `mapstructure:"etcd"`
}

// Etcd is the settings of an etcd cluster.
type Etcd struct {
	Endpoints []string `mapstructure:"endpoints"` // URLs of some members
	Prefix    string   `mapstructure:"prefix"`    // of all keys
	CA        string   `mapstructure:"ca"`        // PEM file with the members' authorities; empty: the system's
	Cert      string   `mapstructure:"cert"`      // PEM files of the client's certificate
	Key       string   `mapstructure:"key"`
	Username  string   `mapstructure:"username"`
	Password  string   `mapstructure:"password" secret:"yes"`
}

func (l *Lease) check(is *settings.Checks) {
	const wantURL = "want a URL, such as https://etcd1.example.jp:2379"
	e := l.Etcd
	is.Require(l.TTL >= 2*time.Second, "lease.ttl", l.TTL, "want at least 2s")
	requireBoth(is, "lease.etcd.cert", e.Cert, "lease.etcd.key", e.Key)
	requireBoth(is, "lease.etcd.username", e.Username, "lease.etcd.password", e.Password)
	switch l.Kind {
	case leaseDatabase:
		is.Require(len(e.Endpoints) == 0, "lease.kind", l.Kind, "takes no lease.etcd.endpoints; want etcd")
	case leaseEtcd:
		is.Require(len(e.Endpoints) > 0, "lease.etcd.endpoints", e.Endpoints, wantURL)
		for _, u := range e.Endpoints {
			is.Require(strings.HasPrefix(u, "http://") || strings.HasPrefix(u, "https://"), "lease.etcd.endpoints", u, wantURL)
		}
	default:
		is.Require(false, "lease.kind", l.Kind, "want database or etcd")
	}
}

// openLeases opens the leases that the settings name. The caller must close them.
func openLeases(cfg Config, db *sql.DB, log *slog.Logger) (lease.Locker, io.Closer, error) {
	opt := lease.Options{TTL: cfg.Lease.TTL, Log: log}
	if cfg.Lease.Kind == leaseEtcd {
		e, err := openEtcd(cfg.Lease.Etcd, opt)
		if err != nil {
			return nil, nil, err
		}
		return e, e, nil
	}
	dir := filepath.Join(cfg.Data, "processes")
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("settings: data: %w", err)
	}
	p, err := lease.Appear(dir)
	if err != nil {
		return nil, nil, err
	}
	return lease.NewDB(db, p, opt), p, nil
}

func openEtcd(e Etcd, opt lease.Options) (*lease.Etcd, error) {
	if host, err := os.Hostname(); err == nil {
		opt.Holder = fmt.Sprintf("%s, process %d", host, os.Getpid())
	}
	c := clientv3.Config{Endpoints: e.Endpoints, Username: e.Username, Password: e.Password}
	if e.CA != "" || e.Cert != "" {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if e.CA != "" {
		pool, err := authorities("lease.etcd.ca", e.CA)
		if err != nil {
			return nil, err
		}
		c.TLS.RootCAs = pool
	}
	if e.Cert != "" {
		pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
		if err != nil {
			return nil, fmt.Errorf("settings: lease.etcd.cert: %w", err)
		}
		c.TLS.Certificates = []tls.Certificate{pair}
	}
	return lease.NewEtcd(lease.EtcdOptions{Client: c, Prefix: e.Prefix, Options: opt})
}

// authorities reads the PEM file that a setting names.
func authorities(key, file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("settings: %s: %w", key, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("settings: %s: %q holds no certificate in PEM", key, file)
	}
	return pool, nil
}
