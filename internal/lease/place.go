package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// place is one Do's key in a queue of etcd's.
type place struct {
	*Etcd
	name     string
	key      string
	revision int64 // of the key's creation

	lease clientv3.LeaseID // 0: there is none
	alive <-chan *clientv3.LeaseKeepAliveResponse
	stop  context.CancelFunc // of keeping the lease alive
}

// acquire returns when the key is the first, with the token. ErrLost says that the
// key was gone before.
func (p *place) acquire(ctx context.Context) (token int64, err error) {
	if err := p.enter(ctx); err != nil {
		return 0, err
	}
	// Where the lease ends while this waits nothing else would tell: the keys before
	// it may go away later, or never.
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

// enter takes a lease and puts a key that lives by it.
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
			Else(clientv3.OpGet(p.key)). // an earlier try of which the answer was lost
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
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // it ended before the key was there
		return ErrLost
	}
	return err
}

// wait returns when no key is older.
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

// watch returns when the key is deleted, or when it cannot be watched any longer:
// then whoever waits looks again.
func (p *place) watch(ctx context.Context, key string, from int64) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx)) // a member cut off from the others ends the watch
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

// token reads what the name was raised to, while the key is there: one who has lost
// the lease must not come by a higher token than those who came after.
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

// keep returns when the lease ends, or ctx.
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

// leave gives the lease up, and the key with it.
func (p *place) leave(ctx context.Context) {
	if p.stop != nil {
		p.stop()
	}
	if p.lease == 0 {
		return
	}
	limit := releasing
	if ctx.Err() == nil { // this process goes on, and its next turn is behind this key
		limit = max(releasing, p.opt.TTL)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := p.try(ctx, func(ctx context.Context) error { _, err := p.client.Revoke(ctx, p.lease); return err })
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		p.opt.Log.Warn("lease: not given up; it ends by itself", "name", p.name, "after", p.opt.TTL, "err", err)
	}
}
