package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// place is the key of one Do in an etcd queue.
type place struct {
	*Etcd
	name     string
	key      string
	revision int64 // at which the key was created

	lease clientv3.LeaseID // 0: none
	alive <-chan *clientv3.LeaseKeepAliveResponse
	stop  context.CancelFunc // stops renewing the lease
}

// acquire waits until the key is the first, and returns the token. It returns ErrLost if the key is
// gone before.
func (p *place) acquire(ctx context.Context) (token int64, err error) {
	if err := p.enter(ctx); err != nil {
		return 0, err
	}
	// If the lease ends during the wait, nothing else would show it: the keys ahead may stay for
	// long.
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case _, ok := <-p.alive:
				if !ok {
					cancel(ErrLost)
					return
				}
			case <-waiting.Done():
				return
			}
		}
	}()
	defer func() { cancel(nil); <-ended }()
	if err := p.wait(waiting); err != nil {
		return 0, err
	}
	return p.token(waiting)
}

// enter takes an etcd lease and puts a key that is attached to it.
func (p *place) enter(ctx context.Context) error {
	ttl := int64((p.opt.TTL + time.Second - 1) / time.Second)
	err := p.try(ctx, func(ctx context.Context) error {
		r, err := p.client.Grant(ctx, ttl)
		if err == nil {
			p.lease = r.ID
		}
		return err
	})
	if err != nil {
		return err
	}
	var keeping context.Context
	keeping, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	if p.alive, err = p.client.KeepAlive(keeping, p.lease); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	p.key = fmt.Sprintf("%s%016x", p.queue(p.name), int64(p.lease))
	err = p.try(ctx, func(ctx context.Context) error {
		r, err := p.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(p.key), "=", 0)).
			Then(clientv3.OpPut(p.key, p.opt.Holder, clientv3.WithLease(p.lease))).
			Else(clientv3.OpGet(p.key)). // an earlier try succeeded, but its answer was lost
			Commit()
		switch {
		case err != nil:
			return err
		case r.Succeeded:
			p.revision = r.Header.Revision
		default:
			p.revision = r.Responses[0].GetResponseRange().Kvs[0].CreateRevision
		}
		return nil
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // the lease ended before the key was put
		return ErrLost
	}
	return err
}

// wait returns when no key in the queue is older.
func (p *place) wait(ctx context.Context) error {
	for {
		var before *clientv3.GetResponse
		err := p.try(ctx, func(ctx context.Context) (err error) {
			before, err = p.client.Get(ctx, p.queue(p.name), append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(p.revision-1))...)
			return err
		})
		if err != nil {
			return err
		}
		if len(before.Kvs) == 0 {
			return nil
		}
		p.watch(ctx, string(before.Kvs[0].Key), before.Header.Revision+1)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// watch returns when the key is deleted, or when watching fails. The caller then looks again.
func (p *place) watch(ctx context.Context, key string, from int64) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx)) // ends the watch of a member that is cut off from the others
	defer cancel()
	for r := range p.client.Watch(ctx, key, clientv3.WithRev(from)) {
		if r.Err() != nil {
			pause(ctx, 100*time.Millisecond)
			return
		}
		for _, e := range r.Events {
			if e.Type == clientv3.EventTypeDelete {
				return
			}
		}
	}
}

// token returns the token if the key still exists. The check is in the same transaction: after
// losing the lease this process must not get a higher token than its successors.
func (p *place) token(ctx context.Context) (token int64, err error) {
	var r *clientv3.TxnResponse
	err = p.try(ctx, func(ctx context.Context) (err error) {
		r, err = p.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(p.key), "=", p.revision)).
			Then(clientv3.OpGet(p.above(p.name))).
			Commit()
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case !r.Succeeded:
		return 0, ErrLost
	}
	above, _, err := number((*clientv3.GetResponse)(r.Responses[0].GetResponseRange()))
	return above + p.revision, err
}

// keep returns when ctx ends, or ErrLost when the lease does.
func (p *place) keep(ctx context.Context) error {
	for {
		select {
		case _, ok := <-p.alive:
			if !ok {
				return fmt.Errorf("lease %s: %w: etcd has not answered for %v", p.name, ErrLost, p.opt.TTL)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// leave revokes the etcd lease, which deletes the key.
func (p *place) leave(ctx context.Context) {
	if p.stop != nil {
		p.stop()
	}
	if p.lease == 0 {
		return
	}
	limit := releasing
	if ctx.Err() == nil { // this process continues, and its next Do would wait behind this key
		limit = max(releasing, p.opt.TTL)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := p.try(ctx, func(ctx context.Context) error { _, err := p.client.Revoke(ctx, p.lease); return err })
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		p.opt.Log.WarnContext(ctx, "lease: not released; it ends by itself", "lease", p.name, "after", p.opt.TTL, "err", err)
	}
}
