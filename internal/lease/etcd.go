package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Etcd grants leases through an etcd cluster. It works while a majority of the cluster's members
// does, whichever members these are. A name's queue is the keys below it, in order of creation; the
// first is the holder's. Each key is attached to an etcd lease.
//
// A token is the revision at which the key was created plus a number that Raise keeps for the name.
// etcd's own Mutex does not suffice: it gives up its place in the queue if a member fails while it
// waits.
type Etcd struct {
	client *clientv3.Client
	prefix string
	opt    Options
}

// EtcdOptions describe a cluster.
type EtcdOptions struct {
	// Client has the endpoints and credentials. Intervals and time-outs that are zero are set so
	// that a lost member is noticed in seconds and new members become known.
	Client clientv3.Config
	Prefix string // of all keys; "sheaf" if empty
	Options
}

const (
	etcdTry  = 3 * time.Second // time-out of one request, after which another member is tried
	etcdSync = 30 * time.Second
)

// NewEtcd returns an Etcd without waiting for the cluster. Requests wait while there is no
// majority.
func NewEtcd(opt EtcdOptions) (*Etcd, error) {
	opt.fill()
	if opt.Holder == "" {
		opt.Holder = rand.Text()
	}
	c := opt.Client
	for d, or := range map[*time.Duration]time.Duration{
		&c.AutoSyncInterval: etcdSync, &c.DialTimeout: etcdTry, &c.DialKeepAliveTime: etcdTry, &c.DialKeepAliveTimeout: etcdTry,
	} {
		if *d == 0 {
			*d = or
		}
	}
	c.PermitWithoutStream = true
	if c.Logger == nil {
		c.Logger = zap.NewNop() // try logs what fails, once
	}
	client, err := clientv3.New(c)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	prefix := strings.Trim(opt.Prefix, "/")
	if prefix == "" {
		prefix = "sheaf"
	}
	return &Etcd{client: client, prefix: prefix, opt: opt.Options}, nil
}

// Close closes the connections. Leases that are held expire by themselves.
func (e *Etcd) Close() error { return e.client.Close() }

// ErrNoQuorum says that no majority of etcd's members answers. No lease is granted or renewed.
var ErrNoQuorum = errors.New("no majority of etcd's members answers")

// Check returns nil if a majority of the members answers, and ErrNoQuorum if none does before ctx
// ends.
func (e *Etcd) Check(ctx context.Context) error {
	// The read is linearizable: the leader asks a majority whether it still leads.
	if _, err := e.client.Get(ctx, e.prefix, clientv3.WithKeysOnly()); err != nil {
		return fmt.Errorf("%w: %w", ErrNoQuorum, err)
	}
	return nil
}

func (e *Etcd) queue(name string) string { return e.prefix + "/queue/" + name + "/" }
func (e *Etcd) above(name string) string { return e.prefix + "/above/" + name }

// Do implements Locker.
func (e *Etcd) Do(ctx context.Context, name string, f func(context.Context, int64) error) error {
	for {
		p := &place{Etcd: e, name: name}
		token, err := p.acquire(ctx)
		switch {
		case errors.Is(err, ErrLost):
			p.leave(ctx)
			continue
		case err != nil:
			p.leave(ctx)
			return fmt.Errorf("lease %s: %w", name, err)
		}
		defer p.leave(ctx)
		return Under(ctx, token, p.keep, f)
	}
}

// Raise implements Locker. It stores a number that makes tokens of keys created from now on exceed
// least.
func (e *Etcd) Raise(ctx context.Context, name string, least int64) error {
	key := e.above(name)
	for {
		var now *clientv3.GetResponse
		err := e.try(ctx, func(ctx context.Context) (err error) { now, err = e.client.Get(ctx, key); return err })
		if err != nil {
			return fmt.Errorf("lease %s: raise: %w", name, err)
		}
		above, seen, err := number(now)
		if err != nil {
			return err
		}
		if above+now.Header.Revision >= least {
			return nil
		}
		raised := strconv.FormatInt(least-now.Header.Revision, 10)
		err = e.try(ctx, func(ctx context.Context) error {
			_, err := e.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", seen)).Then(clientv3.OpPut(key, raised)).Commit()
			return err
		})
		if err != nil {
			return fmt.Errorf("lease %s: raise: %w", name, err)
		}
	}
}

// number returns the number that Raise has stored, and the revision of its key.
func number(r *clientv3.GetResponse) (n, revision int64, err error) {
	if len(r.Kvs) == 0 {
		return 0, 0, nil
	}
	n, err = strconv.ParseInt(string(r.Kvs[0].Value), 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("etcd: key %s: %w", r.Kvs[0].Key, err)
	}
	return n, r.Kvs[0].ModRevision, nil
}

// try calls op until it succeeds, ctx ends, or op fails for a reason that does not pass. op must be
// safe to repeat.
func (e *Etcd) try(ctx context.Context, op func(context.Context) error) error {
	warned := false
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		bounded, cancel := context.WithTimeout(ctx, etcdTry)
		err := op(bounded)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !passes(err) || e.client.Ctx().Err() != nil: // the client is closed
			return fmt.Errorf("etcd: %w", err)
		case !warned && wait > 500*time.Millisecond:
			warned = true
			e.opt.Log.ErrorContext(ctx, "lease: no majority of etcd's members answers; nothing is published or planned until one does", "err", err)
		}
		if !pause(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// passes reports whether an error may pass by itself: a member is down or still a learner, or there
// is no majority at the moment.
func passes(err error) bool {
	code := status.Code(err)
	var coded interface{ Code() codes.Code } // implemented by etcd's errors
	if errors.As(err, &coded) {
		code = coded.Code()
	}
	switch code {
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.NotFound, codes.OutOfRange, codes.Unimplemented:
		return false
	}
	return true
}
