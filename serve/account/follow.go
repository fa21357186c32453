package account

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"sheaf/internal/loop"
)

// lookEvery is the interval at which accounts in use are read again, to learn what other processes
// have changed.
const lookEvery = 10 * time.Second

// followers are the sessions and open files that must learn of changes of their accounts.
type followers struct {
	mu        sync.Mutex // guards what follows, and Following.account and .deleted
	byAccount map[string][]*Following
}

// Following is an account in use. It gives the account as it is now, and not as it was at the
// login. Its methods may be called concurrently.
type Following struct {
	all       *followers // nil: the account never changes
	account   *Account
	token     *Token // with which the client has logged in; nil: with the password
	deleted   bool
	onDeleted func()
}

// Follow follows an account until Close. An account that is not Stored never changes.
func (a *Accounts) Follow(known *Account) *Following {
	f := &Following{account: known, token: known.token}
	if !known.Stored() {
		return f
	}
	f.all = &a.followers
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if f.all.byAccount == nil {
		f.all.byAccount = make(map[string][]*Following)
	}
	f.all.byAccount[known.Name] = append(f.all.byAccount[known.Name], f)
	return f
}

// Notify calls onDeleted once: when Account begins to fail, or now if it fails already. onDeleted
// must not block.
func (f *Following) Notify(onDeleted func()) {
	if f.all == nil {
		return
	}
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if f.onDeleted = onDeleted; f.deleted {
		onDeleted()
	}
}

// Account returns the account as it is now. It fails with ErrNoAccount if the account was deleted
// or suspended, or if the token of the login was revoked or has expired.
func (f *Following) Account() (*Account, error) {
	if f.all == nil {
		return f.account, nil
	}
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if f.deleted {
		return nil, ErrNoAccount
	}
	return f.account, nil
}

// Close ends the account's updates. It may be called again.
func (f *Following) Close() {
	if f.all == nil {
		return
	}
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	name := f.account.Name
	rest := slices.DeleteFunc(f.all.byAccount[name], func(other *Following) bool { return other == f })
	if f.all.byAccount[name] = rest; len(rest) == 0 {
		delete(f.all.byAccount, name)
	}
}

// changed gives the followers of an account its new state. An account of the same name that was
// created later is another account, and a suspended one is as good as deleted.
func (g *followers) changed(now *Account) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.byAccount[now.Name] {
		switch {
		case !f.account.Created.Equal(now.Created), now.Suspended:
			f.delete()
		case !f.account.same(now):
			f.account = now.at(f.account.addr)
		}
	}
}

// deleted tells the followers of an account that it was deleted.
func (g *followers) deleted(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.byAccount[name] {
		f.delete()
	}
}

// keepTokens ends the followings of an account that began with a token, unless is(id) is true for
// the ID of that token.
func (g *followers) keepTokens(name string, is func(id string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.byAccount[name] {
		if f.token != nil && !is(f.token.ID) {
			f.delete()
		}
	}
}

// byToken reports whether a following of an account began with a token.
func (g *followers) byToken(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.byAccount[name], func(f *Following) bool { return f.token != nil })
}

// delete marks the account as deleted, and calls onDeleted the first time. The caller holds
// followers.mu.
func (f *Following) delete() {
	if !f.deleted && f.onDeleted != nil {
		f.onDeleted()
	}
	f.deleted = true
}

// names returns the names of the accounts that are followed.
func (g *followers) names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.byAccount))
}

// Watch reads accounts in use again every few seconds, until ctx ends. While the database cannot be
// read, the accounts stay as they were.
func (a *Accounts) Watch(ctx context.Context, log *slog.Logger) error {
	return loop.After(ctx, lookEvery, a.refresh, func(err error) {
		log.WarnContext(ctx, "accounts in use could not be read again; they stay as they were", "err", err)
	})
}

func (a *Accounts) refresh(ctx context.Context) error {
	for _, name := range a.followers.names() {
		now, _, err := a.load(ctx, name)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			a.followers.deleted(name)
		case err != nil:
			return err
		default:
			a.followers.changed(now)
		}
		if !a.followers.byToken(name) {
			continue
		}
		tokens, err := a.Tokens(ctx, name)
		if err != nil {
			return err
		}
		a.followers.keepTokens(name, func(id string) bool {
			return slices.ContainsFunc(tokens, func(t Token) bool { return t.ID == id && !t.expired(time.Now()) })
		})
	}
	return nil
}
