package service

import (
	"cmp"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sheaf/internal/files"
	"sheaf/internal/lease"
	"sheaf/internal/lease/quorum"
	"sheaf/internal/settings"
)

// Values of lease.kind.
const (
	leaseDatabase = "database"
	leaseQuorum   = "quorum"
)

// Lease is the settings of leases. A lease lets one process at a time do a kind of work.
type Lease struct {
	Kind   string        `mapstructure:"kind"`                   // leaseDatabase or leaseQuorum
	TTL    time.Duration `mapstructure:"ttl" want:"at least 2s"` // a process that is silent for so long loses its lease
	Quorum Quorum        `mapstructure:"quorum"`
}

// Quorum is the settings of leases that the service's own processes grant to each other.
type Quorum struct {
	Members []string `mapstructure:"members"`             // host:port of the servers, the same in all processes
	Secret  string   `mapstructure:"secret" secret:"yes"` // shared by the servers
	Listen  string   `mapstructure:"listen"`              // host:port of this process's server; empty: it has none
	Address string   `mapstructure:"address"`             // host:port at which the other processes reach it; empty: Listen
}

// leastSecret is the least length of the secret of a quorum's servers, in bytes.
const leastSecret = 32

func (q *Quorum) check(is *settings.Checks) {
	const wantAddress = "want host:port, such as ingest1.example.jp:9466"
	is.Require(len(q.Members) > 0, "lease.quorum.members", q.Members, wantAddress)
	for _, m := range q.Members {
		_, _, err := net.SplitHostPort(m)
		is.Require(err == nil, "lease.quorum.members", m, wantAddress)
	}
	is.Require(len(q.Secret) >= leastSecret, "lease.quorum.secret", fmt.Sprintf("%d characters", len(q.Secret)), "want at least 32, such as openssl rand -hex 32 makes")
	if q.Listen != "" {
		_, _, err := net.SplitHostPort(q.Listen)
		is.Require(err == nil, "lease.quorum.listen", q.Listen, wantAddress)
	}
	is.Require(q.Address == "" || q.Listen != "", "lease.quorum.address", q.Address, "needs lease.quorum.listen")
}

func (l *Lease) check(is *settings.Checks) {
	switch l.Kind {
	case leaseDatabase:
		is.Require(len(l.Quorum.Members) == 0, "lease.kind", l.Kind, "takes no lease.quorum.members; want quorum")
	case leaseQuorum:
		l.Quorum.check(is)
	default:
		is.Require(false, "lease.kind", l.Kind, "want database or quorum")
	}
}

// openLeases opens the leases that the settings name. The caller must close them.
func openLeases(cfg Config, db *sql.DB, log *slog.Logger) (lease.Locker, io.Closer, error) {
	opt := lease.Options{TTL: cfg.Lease.TTL, Log: log}
	if cfg.Lease.Kind == leaseQuorum {
		q, err := openQuorum(cfg, opt)
		if err != nil {
			return nil, nil, err
		}
		return q, q, nil
	}
	dir := filepath.Join(cfg.Data, "processes")
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("settings: data: %w", err)
	}
	p, err := lease.Appear(dir)
	if err != nil {
		return nil, nil, err
	}
	return lease.NewDB(db, p, opt), p, nil
}

// thisProcess returns the machine's name and the process's ID, for people.
func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s, process %d", host, os.Getpid())
}

// openQuorum opens the leases of a quorum, with this process's server if it has one.
func openQuorum(cfg Config, opt lease.Options) (*quorum.Locker, error) {
	q := cfg.Lease.Quorum
	opt.Holder = thisProcess()
	all := quorum.Options{Options: opt, Members: q.Members, Secret: []byte(q.Secret)}
	if q.Listen != "" {
		listener, err := net.Listen("tcp", q.Listen)
		if err != nil {
			return nil, fmt.Errorf("settings: lease.quorum.listen: %w", err)
		}
		all.Listener, all.Address = listener, cmp.Or(q.Address, q.Listen)
		// Each process has a file of its own, even if several share the directory.
		all.File = filepath.Join(cfg.Data, "leases-"+strings.NewReplacer(":", "_", "[", "", "]", "").Replace(all.Address)+".json")
	}
	return quorum.Open(all)
}

// OpenQuorum opens the leases of the settings' quorum for an operator's command. It starts no
// server.
func OpenQuorum(cfg Config) (*quorum.Locker, error) {
	if cfg.Lease.Kind != leaseQuorum {
		return nil, fmt.Errorf("settings: lease.kind is %s: only the servers of a quorum join and leave by this command", cfg.Lease.Kind)
	}
	cfg.Lease.Quorum.Listen = ""
	return openQuorum(cfg, lease.Options{TTL: cfg.Lease.TTL})
}
