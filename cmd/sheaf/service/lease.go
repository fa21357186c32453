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
)

// Kinds of leases.
const (
	leaseDatabase = "database"
	leaseEtcd     = "etcd"
)

// Lease is how several processes agree on who publishes, who collects and who plans.
type Lease struct {
	// Kind is database, or etcd for leases that any majority of a cluster's members gives.
	Kind string `mapstructure:"kind"`
	// TTL is after what silence a process's lease passes on to another.
	TTL time.Duration `mapstructure:"ttl"`
	// Etcd is the cluster, where Kind is etcd.
	Etcd Etcd `mapstructure:"etcd"`
}

// Etcd names an etcd cluster.
type Etcd struct {
	// Endpoints are URLs of some members; the others are learnt from these.
	Endpoints []string `mapstructure:"endpoints"`
	// Prefix is what the names of all keys begin with.
	Prefix string `mapstructure:"prefix"`
	// CA is a PEM file of the authorities that vouch for the members; empty: the system's.
	CA string `mapstructure:"ca"`
	// Cert and Key are PEM files that the members know this client by.
	Cert string `mapstructure:"cert"`
	Key  string `mapstructure:"key"`
	// Username and Password are for clusters with authentication.
	Username string `mapstructure:"username"`
	Password string `mapstructure:"password"`
}

// check names the settings that cannot be.
func (l *Lease) check(bad func(key string, value any, why string) error) []error {
	var errs []error
	if l.TTL < 2*time.Second {
		errs = append(errs, bad("lease.ttl", l.TTL, "is less than 2s"))
	}
	e := l.Etcd
	if (e.Cert == "") != (e.Key == "") {
		errs = append(errs, bad("lease.etcd.cert", e.Cert, "needs lease.etcd.key, and the other way round"))
	}
	if (e.Username == "") != (e.Password == "") {
		errs = append(errs, bad("lease.etcd.username", e.Username, "needs lease.etcd.password, and the other way round"))
	}
	switch l.Kind {
	case leaseDatabase:
		if len(e.Endpoints) > 0 {
			errs = append(errs, bad("lease.kind", l.Kind, "takes no lease.etcd.endpoints; want etcd"))
		}
		return errs
	case leaseEtcd:
	default:
		return append(errs, bad("lease.kind", l.Kind, "is no kind of lease; want database or etcd"))
	}
	if len(e.Endpoints) == 0 {
		errs = append(errs, bad("lease.etcd.endpoints", e.Endpoints, "names no member, such as https://etcd1.example.jp:2379"))
	}
	for _, u := range e.Endpoints {
		if !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
			errs = append(errs, bad("lease.etcd.endpoints", u, "is no URL, such as https://etcd1.example.jp:2379"))
		}
	}
	return errs
}

// openLeases gives the leases that the settings name, and what to close at the end.
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

// authorities reads the PEM file of a setting.
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
